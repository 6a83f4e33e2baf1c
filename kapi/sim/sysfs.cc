// SPDX-License-Identifier: GPL-2.0
// Folders and files below /sys/class of a simulated machine.
#include "sysfs.h"

#include <kapi/errno.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <sstream>

#include "node.h"

using namespace sim;

namespace {

/** A file; calls of it may outlast its folder. */
struct File {
    const kapi_sysfs_file *ops;
    void *context;
    kapi_module *owner;
    std::vector<const Task *> callers{};
    WaitList returned{};
    bool left = false; // a call has removed it
};

} // namespace

struct kapi_sysfs_dir {
    kapi_sysfs_class *of;
    kapi_sysfs_dir *parent; // null: a device
    std::string name;
    std::vector<std::shared_ptr<File>> files{};
    std::vector<kapi_sysfs_dir *> folders{};
    bool going = false;    // it is being removed, or a call has left to remove it
    bool unlinked = false; // it is being removed
};

struct kapi_sysfs_class {
    kapi_module *owner;
    std::string name;
    std::vector<kapi_sysfs_dir *> folders{};
};

namespace {

/** What a machine has below /sys/class. */
struct Tree {
    std::vector<kapi_sysfs_class *> classes{};
    std::vector<kapi_sysfs_dir *> folders{}; // all of them
};

std::map<const Node *, Tree> &trees()
{
    static std::map<const Node *, Tree> all;
    return all;
}

Tree &tree()
{
    return trees()[Node::current()];
}

/** The names of a path below /sys/class. */
std::vector<std::string> names_of(const std::string &path)
{
    const std::string top = "/sys/class/";
    if (path.compare(0, top.size(), top) != 0)
        broken("no path of a class: %s", path.c_str());
    std::vector<std::string> names;
    std::istringstream rest(path.substr(top.size()));
    for (std::string name; std::getline(rest, name, '/');)
        names.push_back(name);
    return names;
}

kapi_sysfs_dir *find_folder(const std::vector<kapi_sysfs_dir *> &folders, const std::string &name)
{
    auto found = std::find_if(folders.begin(), folders.end(), [&](const auto *one) { return one->name == name; });
    return found == folders.end() ? nullptr : *found;
}

kapi_sysfs_class *find_class(const std::string &name)
{
    const auto &all = tree().classes;
    auto found = std::find_if(all.begin(), all.end(), [&](const auto *one) { return one->name == name; });
    return found == all.end() ? nullptr : *found;
}

/** The folder that the first names lead to, or null; with a class alone too. */
kapi_sysfs_dir *walk(const std::vector<std::string> &names, std::size_t count)
{
    kapi_sysfs_class *of = count ? find_class(names[0]) : nullptr;
    kapi_sysfs_dir *dir = of && count > 1 ? find_folder(of->folders, names[1]) : nullptr;
    for (std::size_t i = 2; dir && i < count; i++)
        dir = find_folder(dir->folders, names[i]);
    return dir;
}

std::shared_ptr<File> find_file(const kapi_sysfs_dir &dir, const std::string &name)
{
    for (const auto &file : dir.files)
        if (!file->left && name == file->ops->name)
            return file;
    return nullptr;
}

std::shared_ptr<File> find_file(const std::string &path)
{
    std::vector<std::string> names = names_of(path);
    const kapi_sysfs_dir *dir = walk(names, names.size() - 1);
    return dir ? find_file(*dir, names.back()) : nullptr;
}

/** A call of a file by the running task. */
class Call {
public:
    explicit Call(std::shared_ptr<File> file) : file_(std::move(file)) { file_->callers.push_back(World::current_task()); }
    ~Call()
    {
        file_->callers.erase(std::find(file_->callers.begin(), file_->callers.end(), World::current_task()));
        world().wake(file_->returned);
    }
    Call(const Call &) = delete;
    Call &operator=(const Call &) = delete;

private:
    std::shared_ptr<File> file_;
};

bool is_called_by(const File &file, const Task *task)
{
    return std::find(file.callers.begin(), file.callers.end(), task) != file.callers.end();
}

void wait_for_calls(File &file, std::size_t left)
{
    while (file.callers.size() > left)
        world().wait(file.returned, file.ops->name);
}

bool is_name(const std::string &name)
{
    return !name.empty() && name.size() <= 255 && name.find('/') == std::string::npos && name != "." && name != "..";
}

std::vector<kapi_sysfs_dir *> &siblings(const kapi_sysfs_dir &dir)
{
    return dir.parent ? dir.parent->folders : dir.of->folders;
}

int create(kapi_sysfs_class *of, kapi_sysfs_dir *parent, const char *name, const kapi_sysfs_file *files, unsigned count,
           void *context, kapi_sysfs_dir **made)
{
    if (!is_name(name))
        return -KAPI_EINVAL;
    if (find_folder(parent ? parent->folders : of->folders, name) || (parent && find_file(*parent, name)))
        return -KAPI_EEXIST;
    if (parent && parent->unlinked)
        broken("a folder is made in one that is being removed");
    auto *dir = new kapi_sysfs_dir{of, parent, name};
    for (unsigned i = 0; i < count; i++)
        dir->files.push_back(std::make_shared<File>(File{&files[i], context, of->owner}));
    siblings(*dir).push_back(dir);
    tree().folders.push_back(dir);
    *made = dir;
    enter_any("a folder is visible");
    return 0;
}

} // namespace

namespace sim {

int sysfs_read(const std::string &path, std::string &text)
{
    enter_task("sysfs_read");
    std::shared_ptr<File> file = find_file(path);
    if (!file)
        return -KAPI_ENOENT;
    if (!file->ops->show)
        return -KAPI_EACCES;
    Call call(file);
    enter_any(file->ops->name);
    auto shown = std::make_unique<char[]>(KAPI_SYSFS_TEXT); // of this size, so that a sanitizer sees what is beyond
    int length = file->ops->show(file->context, shown.get());
    if (length > KAPI_SYSFS_TEXT)
        broken("%s shows %d bytes", path.c_str(), length);
    text.assign(shown.get(), length > 0 ? static_cast<std::size_t>(length) : 0);
    return length;
}

int sysfs_write(const std::string &path, const std::string &text)
{
    enter_task("sysfs_write");
    std::shared_ptr<File> file = find_file(path);
    if (!file)
        return -KAPI_ENOENT;
    if (!file->ops->store)
        return -KAPI_EACCES;
    if (text.empty())
        return 0; // does not reach the file
    Call call(file);
    enter_any(file->ops->name);
    kapi_module *owner = file->owner;
    if (!kapi_module_get(owner))
        return -KAPI_ENODEV;
    auto copy = std::make_unique<char[]>(text.size() + 1);
    std::memcpy(copy.get(), text.c_str(), text.size() + 1);
    int error = file->ops->store(file->context, copy.get(), text.size());
    kapi_module_put(owner);
    if (error > 0)
        broken("%s: store returns %d", path.c_str(), error);
    return error;
}

std::vector<std::string> sysfs_list(const std::string &path)
{
    enter_task("sysfs_list");
    std::vector<std::string> names = names_of(path), found;
    if (names.size() == 1) {
        if (const kapi_sysfs_class *of = find_class(names[0]))
            for (const auto *dir : of->folders)
                found.push_back(dir->name);
    } else if (const kapi_sysfs_dir *dir = walk(names, names.size())) {
        for (const auto *folder : dir->folders)
            found.push_back(folder->name);
        for (const auto &file : dir->files)
            if (!file->left)
                found.emplace_back(file->ops->name);
    }
    std::sort(found.begin(), found.end());
    return found;
}

unsigned sysfs_mode(const std::string &path)
{
    enter_task("sysfs_mode");
    std::shared_ptr<File> file = find_file(path);
    return file ? (file->ops->show ? 0444u : 0u) | (file->ops->store ? 0200u : 0u) : 0u;
}

std::size_t sysfs_folders(const Node &node)
{
    auto found = trees().find(&node);
    return found == trees().end() ? 0 : found->second.classes.size() + found->second.folders.size();
}

void forget_sysfs(const Node &node)
{
    auto found = trees().find(&node);
    if (found == trees().end())
        return;
    for (auto *of : found->second.classes)
        delete of;
    for (auto *dir : found->second.folders)
        delete dir;
    trees().erase(found);
}

} // namespace sim

int kapi_sysfs_class_create(struct kapi_module *owner, const char *name, struct kapi_sysfs_class **made) noexcept
{
    enter_init("kapi_sysfs_class_create");
    if (find_class(name))
        return -KAPI_EEXIST;
    if (fault("kapi_sysfs_class_create"))
        return -KAPI_ENOMEM;
    *made = new kapi_sysfs_class{owner, name};
    tree().classes.push_back(*made);
    return 0;
}

void kapi_sysfs_class_destroy(struct kapi_sysfs_class *made) noexcept
{
    enter_init("kapi_sysfs_class_destroy");
    if (!made)
        return;
    if (!made->folders.empty())
        broken("class %s goes with folder %s", made->name.c_str(), made->folders.front()->name.c_str());
    std::erase(tree().classes, made);
    delete made;
}

int kapi_sysfs_device_create(struct kapi_sysfs_class *of, const char *name, const struct kapi_sysfs_file *files,
                             unsigned int count, void *context, struct kapi_sysfs_dir **dir) noexcept
{
    enter_sleep("kapi_sysfs_device_create");
    if (fault("kapi_sysfs_device_create"))
        return -KAPI_ENOMEM;
    return create(of, nullptr, name, files, count, context, dir);
}

int kapi_sysfs_dir_create(struct kapi_sysfs_dir *parent, const char *name, const struct kapi_sysfs_file *files,
                          unsigned int count, void *context, struct kapi_sysfs_dir **dir) noexcept
{
    enter_sleep("kapi_sysfs_dir_create");
    if (fault("kapi_sysfs_dir_create"))
        return -KAPI_ENOMEM;
    return create(parent->of, parent, name, files, count, context, dir);
}

void kapi_sysfs_remove(struct kapi_sysfs_dir *dir) noexcept
{
    enter_sleep("kapi_sysfs_remove");
    if (!dir)
        return;
    if (!dir->folders.empty())
        broken("folder %s goes with %s in it", dir->name.c_str(), dir->folders.front()->name.c_str());
    if (dir->unlinked)
        broken("folder %s is removed twice", dir->name.c_str());
    dir->going = dir->unlinked = true;
    for (const auto &file : dir->files) {
        if (file->left)
            continue;
        if (is_called_by(*file, World::current_task()))
            broken("folder %s is removed from its file %s, which waits for itself", dir->name.c_str(), file->ops->name);
        wait_for_calls(*file, 0);
    }
    std::erase(siblings(*dir), dir);
    std::erase(tree().folders, dir);
    delete dir;
}

int kapi_sysfs_leave(struct kapi_sysfs_dir *dir, const char *file) noexcept
{
    enter_task("kapi_sysfs_leave");
    std::shared_ptr<File> left = find_file(*dir, file);
    if (!left || !is_called_by(*left, World::current_task()))
        broken("%s/%s is left by a call that is none of it", dir->name.c_str(), file);
    if (dir->going)
        return 0;
    dir->going = true;
    wait_for_calls(*left, 1);
    left->left = true;
    return 1;
}
