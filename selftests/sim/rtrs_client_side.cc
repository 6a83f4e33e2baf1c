// SPDX-License-Identifier: GPL-2.0
#include "rtrs_client_side.h"

#include <kapi/errno.h>
#include <kapi/sim/sysfs.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "rtrs_disk.h"

using namespace sim;

namespace {

constexpr unsigned kBlocks = 3; // of a program
constexpr unsigned kCalmRounds = 5;
constexpr unsigned kReconnectMs = 1000;
constexpr std::uint64_t kPauseNs = 20 * kMillisecond;
constexpr std::size_t kPage = 4096;
const std::string kFiles = "/sys/class/rtrs-client/session/";

} // namespace

struct RtrsClientSide::Request {
    explicit Request(RtrsCourse &of) : course(of) {}
    RtrsCourse &course;
    std::string data{};
    std::vector<kapi_sglist> list{};
    bool ended = false;
    int error = 0;

    static void done(void *priv, int error)
    {
        auto &request = *static_cast<Request *>(priv);
        if (std::exchange(request.ended, true))
            request.course.fail("a request ends twice");
        request.error = error;
    }
};

RtrsClientSide::RtrsClientSide(RtrsCourse &course, Node &of) : node(of), devices(course, of, RtrsCourse::kClient), course_(course)
{
    for (unsigned i = 0; i < course.profile.programs; i++)
        programs_.emplace_back(std::make_unique<Program>())->blocks.resize(kBlocks);
}

// ---- up and down

void RtrsClientSide::open()
{
    rtrs_clt_route routes[RtrsCourse::kPaths];
    for (unsigned i = 0; i < RtrsCourse::kPaths; i++)
        routes[i] = {KAPI_CM_IP, address(RtrsCourse::kClient[i]), address(RtrsCourse::kServer[i])};
    rtrs_clt_open_args args{&node.initial_net(), "session",         this,         [](void *, int) {}, routes,
                            RtrsCourse::kPaths,  RtrsCourse::kPort, kReconnectMs, -1};
    while (int err = rtrs_clt_core_open(&args, &session_)) { // the server is away, or has not noticed the end of the last one
        course_.world.note("no session", static_cast<std::uint64_t>(-err));
        course_.world.sleep(10 * kPauseNs);
    }
    rtrs_clt_limits limits;
    rtrs_clt_core_query(session_, &limits); // as RNBD does
}

void RtrsClientSide::boot()
{
    node.faults().one_in = 0;
    going_ = false;
    module_ = &node.load_module("rtrs_client");
    const rtrs_clt_core_params params = RTRS_CLT_CORE_PRESETS;
    if (rtrs_clt_core_init(module_, &params))
        course_.fail("the client's module does not load");
    open();
    if (course_.profile.waits && put("no_path_timeout_ms", "600000"))
        course_.fail("a setting of the session is refused");
    if (put("heartbeat_interval_ms", std::to_string(course_.profile.heartbeat_ms)))
        course_.fail("a setting of the session is refused");
    node.faults().one_in = course_.calm ? 0 : course_.profile.fail_one_in;
    for (auto &program : programs_)
        course_.world.spawn(node, "program", [this, &one = *program] { run(one); });
    steady_ = true;
}

void RtrsClientSide::stop()
{
    steady_ = false;
    going_ = true;
    while (std::any_of(programs_.begin(), programs_.end(), [](const auto &program) { return program->running; }) || changing_)
        course_.world.sleep(kMillisecond);
    rtrs_clt_core_close(std::exchange(session_, nullptr));
    if (!node.start_unload(*module_))
        course_.fail("the client's module does not unload");
    rtrs_clt_core_exit();
    node.unload_done(*std::exchange(module_, nullptr));
    node.memory().expect_empty("the client's module");
}

void RtrsClientSide::reload()
{
    course_.outcome.reloads++;
    steady_ = false;
    course_.world.spawn(node, "reload", [this] {
        stop();
        course_.world.sleep(course_.world.random().below(kSecond));
        boot();
    });
}

/** Nobody knows whether what was being written has been. */
void RtrsClientSide::crash()
{
    course_.outcome.crashes++;
    steady_ = false;
    node.crash();
    module_ = nullptr;
    session_ = nullptr;
    changing_ = 0;
    for (auto &program : programs_) {
        program->running = false;
        for (RtrsBlock &block : program->blocks)
            if (block.is_being_written)
                block = {};
    }
    devices.crashed();
    course_.world.after(course_.world.random().below(3 * kSecond),
                        [this] { course_.world.spawn(node, "boot", [this] { boot(); }); });
}

// ---- programs

unsigned RtrsClientSide::wanted() const { return course_.profile.rounds + (must_succeed_ ? kCalmRounds : 0); }

bool RtrsClientSide::is_done() const
{
    return steady_ && std::all_of(programs_.begin(), programs_.end(), [this](const auto &program) {
        return program->running && program->rounds >= wanted();
    });
}

void RtrsClientSide::run(Program &program)
{
    program.running = true;
    while (!going_) {
        if (program.rounds < wanted())
            round(program);
        else
            course_.world.sleep(kPauseNs);
    }
    program.running = false;
}

void RtrsClientSide::round(Program &program)
{
    Random &random = course_.world.random();
    RtrsBlock &block = program.blocks[random.below(kBlocks)];
    int error = !block.written || random.one_in(2) ? write(block) : read(block);
    if (error)
        course_.world.sleep(kPauseNs);
    else
        program.rounds++;
    course_.world.sleep(random.below(kMillisecond));
}

int RtrsClientSide::write(RtrsBlock &block)
{
    if (!block.number)
        block.number = course_.next_block++;
    block.size = 1 + course_.world.random().below(course_.profile.largest);
    block.is_being_written = true;
    int error = call(false, block.number, RtrsCourse::contents(block.number, ++block.written, block.size));
    block.is_being_written = false;
    if (error)
        block = {}; // it may be written yet, even later
    return error;
}

int RtrsClientSide::read(RtrsBlock &block)
{
    std::string data(block.size, '-');
    int error = call(true, block.number, data);
    if (!error && data != RtrsCourse::contents(block.number, block.written, block.size))
        course_.fail("block " + std::to_string(block.number) + " is not what was written to it");
    return error;
}

void RtrsClientSide::check(int error)
{
    bool no_memory = node.faults().one_in && (error == -KAPI_ENOMEM || error == -KAPI_EIO); // for its list
    bool no_path = course_.profile.may_fail() && (error == -KAPI_ECONNABORTED || error == -KAPI_EIO);
    if (must_succeed_ || (!no_memory && !no_path))
        course_.fail("a request fails: " + std::to_string(error));
}

/** A whole request; data is read, or written. */
int RtrsClientSide::call(bool read, std::uint64_t block, std::string &data)
{
    auto request = std::make_shared<Request>(course_);
    requests_.push_back(request);
    request->data.swap(data);
    auto *bytes = reinterpret_cast<unsigned char *>(request->data.data());
    for (std::size_t at = 0; at < request->data.size(); at += kPage)
        request->list.push_back({bytes + at, 0, std::min(kPage, request->data.size() - at)});
    bool admin = course_.world.random().one_in(10) && course_.profile.depth > 1; // one is for IO
    rtrs_clt_chunk *permit = rtrs_clt_core_get_permit(session_, admin, 1);
    std::string message = RtrsDisk::message(read, block);
    rtrs_clt_request_args args{read, request.get(), Request::done, message.size(), request->data.size(), request->list.data(),
                               static_cast<unsigned>(request->list.size())};
    int error = -KAPI_ECONNABORTED; // the last path was lost while it waited
    while (permit) {
        kapi_u32 room;
        std::memcpy(rtrs_clt_core_message(session_, permit, &room), message.data(), message.size());
        error = rtrs_clt_core_request(session_, permit, &args);
        if (error != -KAPI_EAGAIN)
            break;
        course_.world.sleep(kMillisecond);
    }
    for (std::uint64_t pause = 20 * kMicrosecond; !error && !request->ended; pause = std::min(2 * pause, kPauseNs / 4))
        course_.world.sleep(pause);
    if (permit)
        rtrs_clt_core_put_permit(session_, permit);
    if (!error)
        error = request->error;
    if (error)
        check(error);
    course_.outcome.messages += !error;
    data.swap(request->data);
    std::erase(requests_, request);
    return error;
}

// ---- paths

std::string RtrsClientSide::path_name(unsigned path)
{
    return std::string("ip:") + RtrsCourse::kClient[path] + "@ip:" + RtrsCourse::kServer[path];
}

int RtrsClientSide::put(const std::string &file, const std::string &text)
{
    return sysfs_write(kFiles + file, text);
}

bool RtrsClientSide::has_all_paths()
{
    for (unsigned path = 0; path < RtrsCourse::kPaths; path++) {
        std::string state;
        if (sysfs_read(kFiles + "paths/" + path_name(path) + "/state", state) < 0 || state != "connected\n")
            return false;
    }
    return true;
}

void RtrsClientSide::change(unsigned path)
{
    std::string folder = "paths/" + path_name(path) + "/";
    changing_++;
    switch (course_.world.random().below(3)) {
    case 0:
        put(folder + "reconnect", "1");
        break;
    case 1:
        put(folder + "disconnect", "1");
        course_.world.sleep(course_.world.random().below(kSecond));
        put(folder + "reconnect", "1");
        break;
    default:
        put(folder + "remove_path", "1");
        course_.world.sleep(course_.world.random().below(kSecond));
        add(path);
    }
    changing_--;
}

/** The server refuses it while it has not noticed the end of the one before. */
void RtrsClientSide::add(unsigned path)
{
    while (!sysfs_mode(kFiles + "paths/" + path_name(path) + "/state") && put("add_path", path_name(path)) && !going_)
        course_.world.sleep(10 * kPauseNs);
}
