// SPDX-License-Identifier: GPL-2.0
// The simulator's /sys/class: what core and tests rely on.
#include <kapi/sim/sysfs.h>

#include <kapi/errno.h>

#include "kapi_sim_test.h"

namespace {

/** An object with files, as core has them. */
struct Thing {
    int value = 7;
    unsigned in_calls = 0;
    bool leaves = false; // when gone is written
    int left = -1;
    std::uint64_t call_ns = 0;
    kapi_sysfs_dir *dir = nullptr;

    static int show_value(void *context, char *text)
    {
        auto &self = *static_cast<Thing *>(context);
        self.in_calls++;
        if (self.call_ns)
            sim::world().sleep(self.call_ns);
        self.in_calls--;
        return std::snprintf(text, KAPI_SYSFS_TEXT, "%d\n", self.value);
    }
    static int store_value(void *context, const char *text, kapi_size length)
    {
        auto &self = *static_cast<Thing *>(context);
        EXPECT_EQ(text[length], 0);
        if (length > 4)
            return -KAPI_EINVAL;
        self.value = std::atoi(text);
        return 0;
    }
    static int store_gone(void *context, const char *, kapi_size)
    {
        auto &self = *static_cast<Thing *>(context);
        if (self.call_ns)
            sim::world().sleep(self.call_ns);
        self.left = kapi_sysfs_leave(self.dir, "gone");
        if (self.left)
            kapi_sysfs_remove(std::exchange(self.dir, nullptr));
        return 0;
    }
    static constexpr kapi_sysfs_file files[] = {
        {"value", show_value, store_value}, {"fixed", show_value, nullptr}, {"gone", nullptr, store_gone}};
};

class SysfsTest : public SimTest {
protected:
    void make_class()
    {
        ASSERT_EQ(kapi_sysfs_class_create(&module, "things", &of), 0);
    }
    void make(Thing &thing, const char *name = "one")
    {
        ASSERT_EQ(kapi_sysfs_device_create(of, name, Thing::files, 3, &thing, &thing.dir), 0);
    }

    kapi_module &module = a.load_module("things");
    kapi_sysfs_class *of = nullptr;
    Thing thing;
};

TEST_F(SysfsTest, files__are_shown_and_stored)
{
    run(a, [&] {
        make_class();
        make(thing);
        EXPECT_EQ(sim::sysfs_list("/sys/class/things"), std::vector<std::string>{"one"});
        EXPECT_EQ(sim::sysfs_list("/sys/class/things/one"), (std::vector<std::string>{"fixed", "gone", "value"}));
        std::string text;
        EXPECT_EQ(sim::sysfs_read("/sys/class/things/one/value", text), 2);
        EXPECT_EQ(text, "7\n");
        EXPECT_EQ(sim::sysfs_write("/sys/class/things/one/value", "12\n"), 0);
        EXPECT_EQ(thing.value, 12);
        EXPECT_EQ(sim::sysfs_write("/sys/class/things/one/value", "12345"), -KAPI_EINVAL);
        EXPECT_EQ(sim::sysfs_write("/sys/class/things/one/value", ""), 0);
        EXPECT_EQ(thing.value, 12);
        EXPECT_EQ(sim::sysfs_write("/sys/class/things/one/fixed", "1"), -KAPI_EACCES);
        EXPECT_EQ(sim::sysfs_read("/sys/class/things/one/gone", text), -KAPI_EACCES);
        EXPECT_EQ(sim::sysfs_read("/sys/class/things/two/value", text), -KAPI_ENOENT);
        EXPECT_EQ(sim::sysfs_mode("/sys/class/things/one/value"), 0644u);
        EXPECT_EQ(sim::sysfs_mode("/sys/class/things/one/fixed"), 0444u);
        EXPECT_EQ(sim::sysfs_mode("/sys/class/things/one/gone"), 0200u);
        EXPECT_EQ(sim::sysfs_mode("/sys/class/things/one/nothing"), 0u);
        kapi_sysfs_remove(thing.dir);
        kapi_sysfs_class_destroy(of);
        EXPECT_EQ(sim::sysfs_read("/sys/class/things/one/value", text), -KAPI_ENOENT);
    });
}

TEST_F(SysfsTest, folders__lie_in_each_other_and_names_are_checked)
{
    run(a, [&] {
        make_class();
        make(thing);
        kapi_sysfs_dir *paths = nullptr, *path = nullptr, *none = nullptr;
        ASSERT_EQ(kapi_sysfs_dir_create(thing.dir, "paths", nullptr, 0, nullptr, &paths), 0);
        ASSERT_EQ(kapi_sysfs_dir_create(paths, "ip:10.0.0.1@ip:10.0.0.2", Thing::files, 1, &thing, &path), 0);
        std::string text;
        EXPECT_EQ(sim::sysfs_read("/sys/class/things/one/paths/ip:10.0.0.1@ip:10.0.0.2/value", text), 2);
        EXPECT_EQ(kapi_sysfs_dir_create(thing.dir, "paths", nullptr, 0, nullptr, &none), -KAPI_EEXIST);
        EXPECT_EQ(kapi_sysfs_dir_create(thing.dir, "value", nullptr, 0, nullptr, &none), -KAPI_EEXIST);
        EXPECT_EQ(kapi_sysfs_device_create(of, "one", nullptr, 0, nullptr, &none), -KAPI_EEXIST);
        EXPECT_EQ(kapi_sysfs_class_create(&module, "things", &of), -KAPI_EEXIST);
        const std::string too_long(256, 'x');
        for (const char *name : {"", "a/b", ".", "..", too_long.c_str()})
            EXPECT_EQ(kapi_sysfs_device_create(of, name, nullptr, 0, nullptr, &none), -KAPI_EINVAL) << name;
        kapi_sysfs_remove(path);
        kapi_sysfs_remove(paths);
        kapi_sysfs_remove(thing.dir);
        kapi_sysfs_remove(nullptr);
        kapi_sysfs_class_destroy(of);
    });
}

TEST_F(SysfsTest, removal__waits_for_calls)
{
    std::string text;
    thing.call_ns = 5 * sim::kSecond;
    run(a, [&] {
        make_class();
        make(thing);
    });
    auto reader = world.spawn(a, "reader", [&] { EXPECT_EQ(sim::sysfs_read("/sys/class/things/one/value", text), 2); });
    ASSERT_TRUE(world.run_until([&] { return thing.in_calls == 1; }, sim::kSecond));
    auto remover = world.spawn(a, "remover", [&] {
        kapi_sysfs_remove(thing.dir);
        EXPECT_EQ(thing.in_calls, 0u);
        kapi_sysfs_class_destroy(of);
    });
    world.run_for(sim::kSecond);
    EXPECT_FALSE(remover->is_done());
    ASSERT_TRUE(world.run_until([&] { return remover->is_done() && reader->is_done(); }, 10 * sim::kSecond));
    EXPECT_EQ(text, "7\n");
}

TEST_F(SysfsTest, file__removes_its_folder_once_after_it_left)
{
    thing.call_ns = sim::kSecond;
    run(a, [&] {
        make_class();
        make(thing);
    });
    std::vector<int> results;
    for (int i = 0; i < 3; i++)
        world.spawn(a, "writer", [&] { results.push_back(sim::sysfs_write("/sys/class/things/one/gone", "1")); });
    ASSERT_TRUE(world.run_until([&] { return results.size() == 3; }, 10 * sim::kSecond));
    EXPECT_EQ(results, (std::vector<int>{0, 0, 0}));
    EXPECT_EQ(thing.dir, nullptr);
    run(a, [&] { kapi_sysfs_class_destroy(of); });
}

TEST_F(SysfsTest, call__does_not_leave_a_folder_that_is_being_removed)
{
    thing.call_ns = sim::kSecond;
    run(a, [&] {
        make_class();
        make(thing);
    });
    auto writer = world.spawn(a, "writer", [&] { EXPECT_EQ(sim::sysfs_write("/sys/class/things/one/gone", "1"), 0); });
    world.run_for(sim::kSecond / 2);
    run(a, [&] { kapi_sysfs_remove(thing.dir); });
    EXPECT_TRUE(writer->is_done());
    EXPECT_EQ(thing.left, 0);
    run(a, [&] { kapi_sysfs_class_destroy(of); });
}

TEST_F(SysfsTest, store__holds_the_module_and_is_refused_while_that_unloads)
{
    thing.call_ns = sim::kSecond;
    run(a, [&] {
        make_class();
        make(thing);
    });
    auto writer = world.spawn(a, "writer", [&] { EXPECT_EQ(sim::sysfs_write("/sys/class/things/one/gone", "1"), 0); });
    world.run_for(sim::kSecond / 2);
    EXPECT_FALSE(a.start_unload(module));
    ASSERT_TRUE(world.run_until([&] { return writer->is_done(); }, 10 * sim::kSecond));
    run(a, [&] {
        make(thing, "two");
        EXPECT_TRUE(a.start_unload(module));
        EXPECT_EQ(sim::sysfs_write("/sys/class/things/two/value", "1"), -KAPI_ENODEV);
        kapi_sysfs_remove(thing.dir);
        kapi_sysfs_class_destroy(of);
    });
}

TEST_F(SysfsTest, creation__fails_without_memory)
{
    run(a, [&] {
        kapi_sysfs_dir *dir = nullptr, *below = nullptr;
        for (unsigned nth = 1; nth <= 4; nth++) {
            a.faults().count = 0;
            a.faults().fail_at = nth;
            int error = kapi_sysfs_class_create(&module, "things", &of);
            EXPECT_EQ(error, nth == 1 ? -KAPI_ENOMEM : 0);
            if (error)
                continue;
            error = kapi_sysfs_device_create(of, "one", Thing::files, 3, &thing, &dir);
            EXPECT_EQ(error, nth == 2 ? -KAPI_ENOMEM : 0);
            if (!error) {
                error = kapi_sysfs_dir_create(dir, "stats", Thing::files, 3, &thing, &below);
                EXPECT_EQ(error, nth == 3 ? -KAPI_ENOMEM : 0);
                if (!error)
                    kapi_sysfs_remove(below);
                kapi_sysfs_remove(dir);
            }
            kapi_sysfs_class_destroy(of);
        }
        a.faults().fail_at = 0;
    });
}

TEST_F(SysfsTest, crash__takes_all_along)
{
    run(a, [&] {
        make_class();
        make(thing);
    });
    EXPECT_EQ(sim::sysfs_folders(a), 2u);
    a.crash();
    EXPECT_EQ(sim::sysfs_folders(a), 0u);
}

class SysfsDeathTest : public SysfsTest {};

TEST_F(SysfsDeathTest, removal__from_a_file_that_has_not_left_is_found)
{
    static constexpr kapi_sysfs_file trap[] = {{"trap", nullptr, [](void *context, const char *, kapi_size) {
                                                    kapi_sysfs_remove(static_cast<Thing *>(context)->dir);
                                                    return 0;
                                                }}};
    EXPECT_DEATH(run(a,
                     [&] {
                         make_class();
                         ASSERT_EQ(kapi_sysfs_device_create(of, "one", trap, 1, &thing, &thing.dir), 0);
                         sim::sysfs_write("/sys/class/things/one/trap", "1");
                     }),
                 "waits for itself");
}

} // namespace
