// SPDX-License-Identifier: GPL-2.0
// KCM in one network namespace, and the module that all namespaces share.
#pragma once

#include "glue/kcm_core.h"
#include "mux.h"

namespace kcm {

struct NetLock { static constexpr const char* name = "kcm namespace"; static constexpr unsigned rank = 10; };

// The root of the module's state.
class Module : Pinned {
public:
    static Module& get() { return *static_cast<Module*>(*kapi_module_slot(KAPI_SLOT_KCM)); }
    static Result<> start();
    static void stop();
    kapi_workqueue* workqueue = nullptr;
};

class Net : Pinned {
public:
    static Result<Net*> create();
    static void destroy(Net* net);

    void add(Mux& mux);
    void remove(Mux& mux); // its numbers go to those of the past
    unsigned muxes();
    void show(const kcm_rows& rows, void* context);
    void totals(kcm_totals& totals);

private:
    HW_MADE_BY_CREATE;
    Net() = default;
    ~Net() = default;
    Ref<Mux> next(const Mux* after);
    bool has_departed_since(u64& departures);

    Spin<NetLock> lock_;
    RefList<Mux, Muxes> muxes_ HW_GUARDED_BY(lock_);
    unsigned count_ HW_GUARDED_BY(lock_) = 0;
    u64 last_number_ HW_GUARDED_BY(lock_) = 0;
    kcm_totals past_ HW_GUARDED_BY(lock_){};
    u64 departures_ HW_GUARDED_BY(lock_) = 0; // how often past_ grew
};

// How often numbers are added up anew because somebody left meanwhile; then what there is has to do.
constexpr unsigned totals_tries = 4;

// Adds everything that b counts to a.
void add_to(kcm_totals& a, const kcm_totals& b);

} // namespace kcm
