// SPDX-License-Identifier: GPL-2.0
// The machine of the fuzzer kcm_sequence, its peers, and the steps.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "selftests/fuzz/kcm_slot.h"
#include "selftests/fuzz/kcm_wire.h"
#include "selftests/fuzz/steps.h"

namespace sim {

constexpr kapi_u16 kPort = 7000;
constexpr std::uint64_t kDrained = 100 * kSecond; // time limit for a closed socket to send or give up
constexpr std::uint64_t kArrived = 300 * kSecond; // TCP may be slow after links were cut for long

/** See kcm_sequence_fuzz.cc. */
class KcmCourse {
public:
    explicit KcmCourse(World &world) : world_(world), peer_(world.add_node("peer")), node_(world.add_node("victim")), host_(node_)
    {
        peer_.initial_net().add(address("10.0.0.2"));
        node_.initial_net().add(address("10.0.0.1"));
    }

    Node &node() { return node_; }
    void run(const std::vector<Step> &steps);

private:
    static constexpr unsigned kWires = 4, kSlots = 4, kThreads = 4;

    // The steps.
    void step_of_peer(const Step &step);
    void step_of_program(const Step &step);
    void step_of_world(const Step &step);
    void send(KcmSlot &slot, const Step &step);
    void send_many(KcmSlot &slot, const Step &step);
    void receive(KcmSlot &slot, const Step &step);
    void attach(KcmSlot &slot, KcmWire *wire, const Step &step);
    void attach_wrongly(KcmSlot &slot, const Step &step);
    void unattach(KcmSlot &slot, KcmWire *wire, const Step &step);
    void set_option(KcmSlot &slot, const Step &step);
    void any_option(KcmSlot &slot, const Step &step);
    void any_control(KcmSlot &slot, const Step &step);
    void plain(const Step &step);
    void look_at_all();
    void change_buffers(KcmSlot &slot, const Step &step);
    void open_or_clone(KcmSlot &slot, const Step &step);

    void pause(std::uint64_t length_ns);
    void in_thread(KcmSlot &slot, const Step &step, std::function<void()> call);
    void wait_for_threads();
    bool wait_until(const std::function<bool()> &done, std::uint64_t limit_ns);
    KcmWire *connect(kapi_net &net);
    KcmWire *replace(const Step &step);
    KcmWire *wire_of(unsigned which) const { return current_[which % kWires]; }
    bool attach_to(KcmSlot &slot, KcmWire &wire, int filter);
    void unattached(KcmWire &wire, KcmMuxNote &mux, std::uint64_t id);
    kcm_abi_connection_stats row_of(KcmSlot &slot, const KcmWire &wire);
    std::uint64_t id_of(KcmSlot &slot, unsigned which);
    void end_namespace();
    void reload();
    void starve(unsigned one_in);
    void excuse_all();

    // The end.
    void mend();
    void settle(KcmSlot &slot);
    void converse();
    void part();
    bool is_healthy(KcmSlot &slot, KcmWire &wire);
    void judge();
    void drain();
    void finish();

    World &world_;
    Node &peer_, &node_;
    KcmHost host_;
    KcmBooks books_;
    kapi_listener *listener_ = nullptr;
    kapi_net *second_ = nullptr; // namespace
    bool is_cut_ = false;
    std::vector<int> filters_;
    std::vector<std::unique_ptr<KcmWire>> wires_; // all, also closed ones
    KcmWire *current_[kWires] = {};
    std::vector<std::unique_ptr<KcmSlot>> slots_;
    std::vector<TaskRef> threads_;
};

} // namespace sim
