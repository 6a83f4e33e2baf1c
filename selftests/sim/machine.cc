// SPDX-License-Identifier: GPL-2.0
#include "machine.h"

#include <algorithm>
#include <string>
#include <utility>

#include "course.h"
#include "net/rds/uapi.h"

using namespace sim;

namespace {
constexpr unsigned kAddressesOfANet = 250;
}

// ---- a namespace and its programs

kapi_addr Site::address(kapi_u16 port) const
{
    std::string text = "10.0." + std::to_string(number / kAddressesOfANet) + "." +
                       std::to_string(number % kAddressesOfANet + 1);
    return sim::address(text.c_str(), port);
}

void Site::start_programs(Course &course)
{
    std::vector<std::unique_ptr<Program>> fresh;
    for (unsigned i = 0; i < course.profile.sockets; i++)
        fresh.push_back(std::make_unique<Program>(course, *this, i));
    for (auto &program : fresh)
        program->open();
    programs = std::move(fresh); // others may send to them
    for (auto &program : programs)
        program->start();
}

void Site::stop_programs()
{
    for (auto &program : programs)
        program->stop();
    programs.clear();
}

void Machine::add_site()
{
    kapi_net &net = sites.empty() ? node.initial_net() : node.add_net();
    auto number = static_cast<unsigned>(course_.sites.size());
    sites.push_back(std::make_unique<Site>(Site{*this, number, &net, {}}));
    course_.sites.push_back(sites.back().get());
    net.add(sites.back()->address());
}

// ---- up and down

void Machine::spawn(const char *name, std::function<void()> body, TaskKind kind)
{
    course_.world.spawn(node, name, std::move(body), kind);
}

/** No allocation failures during set-up here: the unit tests cover those one by one. Returns the rate to restore. */
std::uint64_t Machine::without_faults()
{
    std::uint64_t rate = std::exchange(node.faults().one_in, 0);
    return course_.calm ? 0 : rate;
}

/** Like an administrator's script for each namespace. */
void Machine::configure(const RdsHost::Net &net)
{
    if (course_.profile.idle_ms)
        rds_net_sysctl(net.rds)->idle_connection_ms = course_.profile.idle_ms;
}

void Machine::boot()
{
    std::uint64_t rate = without_faults();
    if (int err = host.load())
        course_.world.fail("the modules do not load: %d", err);
    for (const RdsHost::Net &net : host.nets())
        configure(net);
    for (auto &site : sites)
        if (site->net)
            site->start_programs(course_);
    node.faults().one_in = rate;
    steady = true;
}

void Machine::stop_programs()
{
    for (auto &site : sites)
        site->stop_programs();
}

void Machine::crash()
{
    steady = false;
    course_.outcome.crashes++;
    for (auto &site : sites)
        for (auto &program : site->programs)
            program->crashed();
    node.crash();
    host.forget();
    for (auto &site : sites)
        site->programs.clear();
    course_.world.after(course_.world.random().below(3 * kSecond), [this] { spawn("boot", [this] { boot(); }); });
}

void Machine::reload()
{
    steady = false;
    course_.outcome.reloads++;
    spawn("reload", [this] {
        stop_programs();
        if (course_.world.random().one_in(2)) // rmmod was interrupted, and can no longer give up
            course_.world.signal(*World::current_task());
        if (!host.unload_soon())
            course_.world.fail("the modules do not unload although no socket is open");
        node.memory().expect_empty("an unloaded module");
        course_.world.sleep(course_.world.random().below(2 * kSecond));
        boot();
    });
}

// ---- namespaces

/** Some of the namespaces, not the initial one, end together: programs first, as they hold them; the rest in a work. */
void Machine::delete_nets()
{
    std::vector<Site *> going;
    for (auto &site : sites)
        if (site != sites.front() && site->net && (going.empty() || course_.world.random().one_in(2)))
            going.push_back(site.get());
    if (going.empty())
        return;
    steady = false;
    course_.outcome.net_deletions += going.size();
    spawn("last program", [this, going] {
        for (Site *site : going)
            site->stop_programs();
        spawn("netns work", [this, going] { end_nets(going); }, TaskKind::work);
    });
}

void Machine::end_nets(const std::vector<Site *> &going)
{
    std::vector<kapi_net *> nets;
    for (Site *site : going)
        nets.push_back(std::exchange(site->net, nullptr));
    if (!host.delete_nets(nets))
        course_.world.fail("a namespace is kept although no socket is open in it");
    for (Site *site : going)
        bring_back_soon(*site);
    steady = true;
}

void Machine::bring_back_soon(Site &site)
{
    course_.world.after(course_.world.random().below(2 * kSecond), [this, &site] {
        if (!steady)
            return bring_back_soon(site);
        steady = false;
        spawn("new namespace", [this, &site] { bring_back(site); });
    });
}

void Machine::bring_back(Site &site)
{
    std::uint64_t rate = without_faults();
    kapi_net &net = node.add_net();
    net.add(site.address());
    if (int err = host.add_net(net))
        course_.world.fail("a namespace is not made: %d", err);
    configure(host.net(net));
    site.net = &net;
    site.start_programs(course_);
    node.faults().one_in = rate;
    steady = true;
}

// ---- time

/** Mostly short, sometimes longer than the peers' dead-peer limit. */
void Machine::pause()
{
    Random &random = course_.world.random();
    std::uint64_t longest = random.one_in(3) ? 20 * kSecond : kSecond;
    node.pause(1 + random.below(longest), random.one_in(2));
}

/** Forward or back, by up to years. */
void Machine::set_clock()
{
    Random &random = course_.world.random();
    node.local_clock_spread_ns = random.below(kMillisecond);
    auto by = static_cast<std::int64_t>(random.below(random.one_in(2) ? kSecond : 100'000'000 * kSecond));
    node.real_offset_ns = random.one_in(2) ? by : -by;
}

// ---- sockets, memory, buffers

void Machine::reopen()
{
    Random &random = course_.world.random();
    Site &site = *sites[random.below(sites.size())];
    if (site.programs.empty())
        return;
    steady = false;
    spawn("reopen", [this, &site, &random] {
        Program &program = *site.programs[random.below(site.programs.size())];
        program.stop();
        if (random.one_in(4))
            course_.world.sleep(random.below(100 * kMillisecond));
        std::uint64_t rate = without_faults();
        program.open();
        node.faults().one_in = rate;
        program.start();
        steady = true;
    });
}

/** One after the other, while faults last. */
void Machine::reopen_soon()
{
    course_.world.after(course_.world.random().below(20 * kMillisecond), [this] {
        if (course_.calm)
            return;
        if (steady)
            reopen();
        reopen_soon();
    });
}

void Machine::famine()
{
    Random &random = course_.world.random();
    node.faults().one_in = random.between(2, 10);
    course_.world.after(random.below(200 * kMillisecond), [this] {
        node.faults().one_in = course_.calm ? 0 : course_.profile.fail_one_in;
    });
}

void Machine::change_buffers()
{
    spawn("sysctl", [this] {
        Random &random = course_.world.random();
        Site &site = *sites[random.below(sites.size())];
        if (!steady || !site.net)
            return;
        rds_tcp_net *net = host.net(*site.net).tcp;
        rds_tcp_sysctl *values = rds_tcp_net_sysctl(net);
        values->rds_tcp_sndbuf = static_cast<int>(random.between(kSmallestBuffer, 500'000));
        values->rds_tcp_rcvbuf = static_cast<int>(random.between(kSmallestBuffer, 500'000));
        rds_tcp_net_sysctl_changed(net);
    });
}
