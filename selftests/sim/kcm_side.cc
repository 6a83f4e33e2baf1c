// SPDX-License-Identifier: GPL-2.0
#include "kcm_side.h"

#include <kapi/errno.h>

#include <algorithm>
#include <cstring>
#include <utility>

using namespace sim;

KcmSide::KcmSide(KcmCourse &course, Node &of, Kind kind, const char *addr)
    : node(of), course_(course), host_(of), plain_(course), kind_(kind), address_(address(addr)), net_(&of.initial_net())
{
    net_->add(address_);
}

void KcmSide::spawn(const char *name, std::function<void()> body)
{
    std::erase_if(tasks_, [](const TaskRef &task) { return task->is_done(); });
    tasks_.push_back(course_.world.spawn(node, name, std::move(body)));
}

bool KcmSide::is_done() const
{
    return steady_ && std::all_of(programs_.begin(), programs_.end(), [](const auto &program) { return program->is_done(); });
}

bool KcmSide::has_connections() const
{
    return std::any_of(tasks_.begin(), tasks_.end(), [](const TaskRef &task) { return !task->is_done(); });
}

// ---- up and down

void KcmSide::open_programs()
{
    const KcmProfile &profile = course_.profile;
    filter_ = program_length_filter();
    for (unsigned i = 0; i < profile.sockets; i++) {
        programs_.push_back(KcmProgram::open(course_, host_, *net_, i ? programs_[0].get() : nullptr));
        programs_.back()->start();
    }
    first().set_option(KCM_ABI_MAX_MESSAGE, static_cast<int>(KcmProfile::kLargest));
    first().set_option(KCM_ABI_STEERING, profile.steering);
    if (profile.churn)
        spawn("churn", [this] { churn_loop(); });
}

/** No allocation failures during set-up here: the unit tests cover those one by one. */
void KcmSide::boot()
{
    node.faults().one_in = 0;
    going_ = false;
    if (kind_ != Kind::plain && !host_.is_loaded() && host_.load())
        course_.fail("the module does not load");
    if (kind_ != Kind::plain)
        open_programs();
    if (kind_ == Kind::calls) {
        for (unsigned i = 0; i < course_.profile.connections; i++)
            spawn("connection", [this] { connect_loop(); });
    } else {
        listener_ = program_listen(*net_, address("::", KcmCourse::kPort));
        spawn("accept", [this] { accept_loop(); });
    }
    node.faults().one_in = course_.calm ? 0 : course_.profile.fail_one_in;
    steady_ = true;
}

void KcmSide::wait_for_tasks()
{
    while (has_connections())
        course_.world.sleep(kMillisecond);
}

void KcmSide::stop(bool polite)
{
    polite_ = polite;
    going_ = true;
    wait_for_tasks();
    for (auto &program : programs_)
        program->stop();
    programs_.clear();
    if (listener_)
        program_unlisten(std::exchange(listener_, nullptr));
    if (filter_ >= 0)
        program_close(std::exchange(filter_, -1));
}

/** The machine crashes, and all of its programs with it. */
void KcmSide::crash()
{
    course_.outcome.crashes++;
    for (auto &program : programs_)
        program->crashed();
    node.crash();
    host_.forget();
    programs_.clear();
    tasks_.clear();
    taken_away_ = 0;
    listener_ = nullptr;
    filter_ = -1;
    course_.world.after(course_.world.random().below(2 * kSecond), [this] {
        course_.world.spawn(node, "boot", [this] { boot(); });
    });
}

void KcmSide::reload()
{
    course_.outcome.reloads++;
    stop(course_.world.random().one_in(2));
    if (!unload(2 * KcmCourse::kSettleNs))
        course_.fail("the module does not unload although no socket is open");
    node.memory().expect_empty("an unloaded module");
    course_.world.sleep(course_.world.random().below(kSecond));
    boot();
}

/** Makes one other namespace first, so that the initial one is not the first to end. */
void KcmSide::end_net()
{
    course_.outcome.net_deletions++;
    stop(course_.world.random().one_in(2));
    net_->remove(address_);
    kapi_net *old = net_->initial ? nullptr : net_;
    if (old && !host_.delete_net(*old, 2 * KcmCourse::kSettleNs))
        course_.fail("a namespace is kept although no socket is open in it");
    node.faults().one_in = 0;
    net_ = &node.add_net();
    net_->add(address_);
    if (host_.add_net(*net_))
        course_.fail("a namespace is not made");
    boot();
}

void KcmSide::fall()
{
    if (!steady_ || kind_ == Kind::plain)
        return;
    steady_ = false;
    switch (course_.world.random().below(3)) {
    case 0:
        return crash();
    case 1:
        return static_cast<void>(course_.world.spawn(node, "reload", [this] { reload(); }));
    default:
        return static_cast<void>(course_.world.spawn(node, "namespace", [this] { end_net(); }));
    }
}

// ---- connections

void KcmSide::attach(int fd)
{
    while (int err = first().attach(fd, filter_)) {
        if (err == -KAPI_EOPNOTSUPP && course_.may_break())
            return; // it is reset already
        if (err != -KAPI_ENOMEM)
            course_.fail("attach: " + std::to_string(err));
        course_.world.sleep(kMillisecond);
    }
}

/** False when it was not attached. */
bool KcmSide::unattach(int fd)
{
    int err;
    while ((err = first().unattach(fd)) == -KAPI_EAGAIN)
        ;
    if (err && err != -KAPI_ENOENT)
        course_.fail("unattach: " + std::to_string(err));
    return !err;
}

void KcmSide::take_away_for_a_while(int fd)
{
    taken_away_++;
    if (unattach(fd))
        attach(fd);
    taken_away_--;
}

void KcmSide::serve_until_dead(int fd)
{
    Random &random = course_.world.random();
    kapi_u16 port = program_socket_of(fd).tcb->local.port, peer = program_socket_of(fd).tcb->remote.port;
    auto is_dead = [&] {
        if (program_poll(fd) & (KAPI_ERR | KAPI_HUP))
            return true;
        for (const auto &row : first().connections()) // a sender may have got the error instead of us
            if (row.local_port == port && row.remote_port == peer)
                return row.error != 0;
        return false;
    };
    while (!ends() && !is_dead()) {
        course_.world.sleep(random.below(20 * kMillisecond));
        if (course_.profile.churn && !course_.still && random.one_in(20))
            take_away_for_a_while(fd);
    }
}

/** A connection, until it breaks or all is over. */
void KcmSide::serve(int fd)
{
    if (kind_ == Kind::plain)
        return plain_.serve(fd);
    attach(fd);
    serve_until_dead(fd);
    if (!going_ || polite_) // else it stays attached until the last socket is closed
        unattach(fd);
    program_close(fd);
}

void KcmSide::connect_loop()
{
    while (!ends()) {
        int fd = program_connect(*net_, address_, address("10.0.0.2", KcmCourse::kPort));
        if (fd < 0) {
            course_.world.sleep(10 * kMillisecond);
            continue;
        }
        program_set_buffers(fd, course_.profile.tcp_sndbuf, course_.profile.tcp_rcvbuf);
        serve(fd);
    }
}

void KcmSide::accept_loop()
{
    while (!ends()) {
        kapi_stream *stream;
        if (kapi_accept(listener_, &stream)) {
            course_.world.sleep(kMillisecond);
            continue;
        }
        int fd = program_socket(stream, course_.profile.tcp_rcvbuf);
        program_set_buffers(fd, course_.profile.tcp_sndbuf, 0);
        spawn("connection", [this, fd] { serve(fd); });
    }
}

// ---- other actions of programs

void KcmSide::churn_loop()
{
    Random &random = course_.world.random();
    while (!course_.calm && !going_) {
        course_.world.sleep(random.below(30 * kMillisecond));
        std::size_t which = random.below(programs_.size());
        if (which == 0) {
            first().set_option(KCM_ABI_STEERING, static_cast<int>(random.below(3)));
            auto made = programs_.size() < 6 ? KcmProgram::open(course_, host_, *net_, programs_[0].get()) : nullptr;
            if (made) {
                programs_.push_back(std::move(made));
                programs_.back()->start();
            }
        } else if (random.one_in(2)) {
            programs_[which]->stop();
            programs_.erase(programs_.begin() + static_cast<std::ptrdiff_t>(which));
        } else {
            programs_[which]->socket.set_option(KCM_ABI_RECV_DISABLE, random.one_in(2));
        }
    }
    for (auto &program : programs_)
        program->socket.set_option(KCM_ABI_RECV_DISABLE, 0);
}
