// SPDX-License-Identifier: GPL-2.0
// KCM in one network namespace, and the module that all namespaces share.
#pragma once

#include "../lock_order.h"
#include "glue/kcm_core.h"
#include "mux.h"
#include "users.h"

#include <kapi/report.h>

namespace kcm {

// The root of the module's state.
class Module : Pinned {
public:
    static Module& get() { return *static_cast<Module*>(*kapi_module_slot(KAPI_SLOT_KCM)); }
    static Result<> start();
    static void stop();

    Users users;

private:
    HW_MADE_BY_CREATE;
    Module() = default;
    ~Module() = default;
};

class Net : Pinned {
public:
    static Result<Net*> create(kapi_net* host);
    static void destroy(Net* net);

    kapi_net* const host;

    void add(Mux& mux);
    void remove(Mux& mux); // its numbers go to those of the past
    unsigned muxes();
    void show(const kcm_rows& rows, void* context);
    void totals(kcm_totals& totals);
    // Adds the connection behind place, which is moved. 0: there is none. Sleeps. (report.cc)
    int report_connection(kapi_report_place& place, kapi_report* report);
    int report_mux(kapi_report_place& place, kapi_report* report); // the same

private:
    HW_MADE_BY_CREATE;
    explicit Net(kapi_net* of) : host(of) {}
    ~Net() = default;
    Ref<Mux> find(u64 number);
    Ref<Mux> next(Ref<Mux> after);
    Ref<Mux> next_behind(u64 behind, Ref<Mux> after = nullptr);
    bool has_departed_since(u64& departures);

    Spin<NetLock> lock_;
    RefList<Mux, Muxes> muxes_ HW_GUARDED_BY(lock_);
    HashTable<Mux, ByNumber, NumbersLock, 64> by_number_; // those of muxes_, a moment later
    unsigned count_ HW_GUARDED_BY(lock_) = 0;
    u64 last_number_ HW_GUARDED_BY(lock_) = 0;
    kcm_totals past_ HW_GUARDED_BY(lock_){};
    u64 departures_ HW_GUARDED_BY(lock_) = 0; // how often past_ grew
};

// Adding up the counters of many objects begins again when one of them was removed meanwhile, but not more often than this:
// then the sum may lack that one, or have it twice.
constexpr unsigned totals_tries = 4;

// Adds everything that b counts to a.
void add_to(kcm_totals& a, const kcm_totals& b);
void add_difference(kcm_totals& a, const kcm_totals& now, const kcm_totals& before); // a += now - before

} // namespace kcm
