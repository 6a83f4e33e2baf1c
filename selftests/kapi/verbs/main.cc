// SPDX-License-Identifier: GPL-2.0
#include "link.h"

#include "verbs_test.h"

namespace test {

namespace {

void on_added(void* context, kapi_rdma_dev* dev, const struct kapi_rdma_attrs* attrs)
{
    auto* seen = static_cast<Devices*>(context);
    if (seen->added < 2) {
        seen->dev[seen->added] = dev;
        seen->attrs[seen->added] = attrs;
    }
    seen->added = seen->added + 1;
}

void on_removed(void* context, kapi_rdma_dev*)
{
    auto* seen = static_cast<Devices*>(context);
    if (seen->on_removed)
        seen->on_removed(seen->context);
    seen->removed = seen->removed + 1;
}

constexpr kapi_rdma_watch_ops watch_ops{on_added, on_removed};

struct Test {
    const char* name;
    bool (*run)(VerbsBench&);
};

// Of one that is to be run for queues of each mode.
template <bool (*run)(VerbsBench&, kapi_cq_mode), kapi_cq_mode mode> bool in_mode(VerbsBench& bench)
{
    return run(bench, mode);
}

#define TEST(function) {#function, function}
#define TESTS(function)                                                                              \
    {#function "_softirq", in_mode<function, KAPI_CQ_SOFTIRQ>},                                      \
    {#function "_work", in_mode<function, KAPI_CQ_WORK>},                                            \
    {#function "_direct", in_mode<function, KAPI_CQ_DIRECT>}
constexpr Test tests[] = {
    TEST(devices), TESTS(messages),
    TEST(connect_private_data), TEST(connect_ipv6), TEST(connect_link_local), TEST(connect_v4_to_both),
    TEST(connect_rejected), TEST(connect_rejected_later), TEST(connect_forgotten), TEST(connect_to_nobody), TEST(connect_errors),
    TEST(listen_errors), TEST(disconnect), TEST(destroy_early), TESTS(drain), TEST(drain_in_vain),
    TEST(drain_slowly), TEST(short_visits), TEST(unsignalled), TEST(large_requests),
    TEST(chains), TEST(impossible_requests),
    TEST(full_queue), TEST(no_receive), TEST(too_long), TEST(limits), TEST(read_and_write), TEST(bounds), TEST(dead_keys),
    TEST(registrations), TEST(refused_while_held), TEST(atomics), TEST(region_errors), TEST(mappings), TEST(block_list),
    TEST(pin), TEST(pin_errors), TEST(pin_limit), TEST(pin_limit_wakes_one),
    TEST(pin_limit_wakes_all_at_last), TEST(pin_limit_awaits_nothing_of_others), TEST(pin_limit_small_before_large),
    TEST(busy_pins_share_one_work), TEST(busy_pins_count_for_their_user), TEST(receive_buffers), TEST(removed_under_load),
    TEST(removed_while_resolving), TEST(exclusive),
};
#undef TESTS
#undef TEST

bool run_all(VerbsBench& bench)
{
    int number = 0, failed = 0;
    unsigned long wanted = 0;
    for (const Test& test : tests)
        wanted += verbs_test_wanted(test.name) != 0;
    verbs_test_plan(wanted);
    for (const Test& test : tests) {
        if (!verbs_test_wanted(test.name))
            continue;
        const bool ok = test.run(bench);
        verbs_test_report(ok, ++number, test.name);
        failed += !ok;
    }
    return failed == 0;
}

} // namespace
} // namespace test

int verbs_test_run(kapi_net* net) noexcept
{
    test::Boxed<test::Devices> seen;
    struct kapi_rdma_watcher* watch = nullptr;
    if (!seen)
        return -KAPI_ENOMEM;
    if (const int error = kapi_rdma_watch(&test::watch_ops, &*seen, &watch))
        return error;
    test::VerbsBench bench{net, &*seen};
    const bool ok = test::run_all(bench);
    kapi_rdma_unwatch(watch);
    return ok && seen->removed == seen->added ? 0 : -KAPI_EIO;
}
