// SPDX-License-Identifier: GPL-2.0
// The campaign: many seeds, or one.
//
//     sim --first 1 --seeds 300 [--jobs 2]    each seed once, every tenth twice to see that it replays exactly
//     sim --seconds 600                       new seeds for this time
//     sim --seed 17                           one, with its parameters
//     sim --suite kcm ...                     of KCM instead of RDS, or of rtrs
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>
#include <utility>
#include <vector>

#include "coverage.h"
#include "kcm_scenario.h"
#include "rtrs_scenario.h"
#include "scenario.h"

namespace {

constexpr unsigned kMostTransitions = 64;
constexpr unsigned kMostJobs = 64;
constexpr unsigned kReplayOneIn = 10;
constexpr unsigned kProgressEvery = 1000;
constexpr unsigned kFullCampaign = 100; // this number of seeds takes every transition

/** Results of the worker processes for their parent. */
struct Shared {
    std::atomic<std::uint64_t> next, done, failed, messages, events, resets, connections, crashes, reloads;
    std::atomic<std::uint64_t> net_deletions, faults, hostile;
    std::atomic<std::uint64_t> seed_of_job[kMostJobs];
    std::time_t end_time;
    std::atomic<unsigned long> transitions[kMostTransitions];
};

/** What is simulated. */
struct Suite {
    const char *name;
    Outcome (*run)(std::uint64_t seed);
    std::string (*describe)(sim::Random &random);
};

template <class OfSuite> Outcome run_scenario(std::uint64_t seed)
{
    OfSuite scenario(seed);
    return scenario.run();
}

template <class OfSuite> std::string describe_profile(sim::Random &random) { return OfSuite(random).describe(); }

constexpr Suite kSuites[] = {
    {"rds", run_scenario<Scenario>, describe_profile<Profile>},
    {"kcm", run_scenario<KcmScenario>, describe_profile<KcmProfile>},
    {"rtrs", run_scenario<RtrsScenario>, describe_profile<RtrsProfile>},
};
const Suite *suite = &kSuites[0];

struct Arguments {
    std::uint64_t first = 1, seeds = 100, seed = 0;
    unsigned jobs = 2, seconds = 0, most_failures = 20;
};

/** Of an unknown name: null. */
const Suite *find_suite(const char *name)
{
    for (const Suite &one : kSuites)
        if (!std::strcmp(one.name, name))
            return &one;
    return nullptr;
}

Arguments parse(int argc, char **argv)
{
    Arguments arguments;
    for (int i = 1; i + 1 < argc; i += 2) {
        std::uint64_t value = std::strtoull(argv[i + 1], nullptr, 10);
        if (!std::strcmp(argv[i], "--first"))
            arguments.first = value;
        else if (!std::strcmp(argv[i], "--seeds"))
            arguments.seeds = value;
        else if (!std::strcmp(argv[i], "--suite"))
            suite = find_suite(argv[i + 1]);
        else if (!std::strcmp(argv[i], "--seed"))
            arguments.seed = value;
        else if (!std::strcmp(argv[i], "--seconds"))
            arguments.seconds = static_cast<unsigned>(value);
        else if (!std::strcmp(argv[i], "--most-failures"))
            arguments.most_failures = static_cast<unsigned>(value);
        else if (!std::strcmp(argv[i], "--jobs"))
            arguments.jobs = static_cast<unsigned>(std::min<std::uint64_t>(value ? value : 1, kMostJobs));
    }
    if (arguments.seconds) { // chosen by the time; no two runs begin near each other
        arguments.first = sim::Random(static_cast<std::uint64_t>(std::time(nullptr))).next() % 1'000'000'000'000;
        arguments.seeds = ~std::uint64_t{0} / 2;
        std::printf("new seeds, from %llu\n", static_cast<unsigned long long>(arguments.first));
    }
    return arguments;
}

/** Without a sanitizer: reports a crash, and dies. */
[[maybe_unused]] void bad_access(int number)
{
    static const char kText[] = "--- simulation failed: a bad memory access\n";
    static_cast<void>(!write(STDERR_FILENO, kText, sizeof(kText) - 1));
    std::signal(number, SIG_DFL);
    std::raise(number);
}

std::string describe(std::uint64_t seed)
{
    sim::Random random(seed * 3 + 3);
    return suite->describe(random);
}

Outcome run_and_replay(std::uint64_t seed, bool replay)
{
    Outcome first = suite->run(seed);
    if (!replay)
        return first;
    Outcome second = suite->run(seed);
    if (first.hash != second.hash || first.events != second.events) {
        std::fprintf(stderr, "--- seed %llu does not replay: trace hashes %016llx and %016llx\n",
                     static_cast<unsigned long long>(seed), static_cast<unsigned long long>(first.hash),
                     static_cast<unsigned long long>(second.hash));
        std::abort();
    }
    return first;
}

/** One seed, with detailed output. */
int show(std::uint64_t seed)
{
    std::printf("seed %llu: %s\n", static_cast<unsigned long long>(seed), describe(seed).c_str());
    std::fflush(stdout);
    Outcome outcome = run_and_replay(seed, true);
    std::printf("kept its promises: %llu messages in %.1f simulated seconds, %llu connections, %llu resets, "
                "%llu crashes, %llu reloads, %llu namespace deletions, %llu allocation failures, %llu hostile acts and "
                "%llu messages; trace hash %016llx of %llu events, replayed\n",
                static_cast<unsigned long long>(outcome.messages), outcome.simulated_seconds,
                static_cast<unsigned long long>(outcome.connections), static_cast<unsigned long long>(outcome.resets),
                static_cast<unsigned long long>(outcome.crashes), static_cast<unsigned long long>(outcome.reloads),
                static_cast<unsigned long long>(outcome.net_deletions),
                static_cast<unsigned long long>(outcome.allocation_faults),
                static_cast<unsigned long long>(outcome.hostile_acts),
                static_cast<unsigned long long>(outcome.hostile_messages),
                static_cast<unsigned long long>(outcome.hash), static_cast<unsigned long long>(outcome.events));
    return 0;
}

void add_transitions(Shared &shared)
{
    unsigned i = 0;
    for (auto &[name, count] : transitions_taken())
        if (i < kMostTransitions)
            shared.transitions[i++] += std::exchange(count, 0);
}

void work(Shared &shared, unsigned job, const Arguments &arguments)
{
    for (;;) {
        if (arguments.seconds && std::time(nullptr) >= shared.end_time)
            std::_Exit(0);
        std::uint64_t seed = shared.next++;
        if (seed >= arguments.first + arguments.seeds)
            std::exit(0); // and not _Exit, so that coverage is written
        shared.seed_of_job[job] = seed;
        Outcome outcome = run_and_replay(seed, seed % kReplayOneIn == 0);
        shared.done++;
        shared.messages += outcome.messages;
        shared.events += outcome.events;
        shared.resets += outcome.resets;
        shared.connections += outcome.connections;
        shared.crashes += outcome.crashes;
        shared.reloads += outcome.reloads;
        shared.net_deletions += outcome.net_deletions;
        shared.hostile += outcome.hostile_acts;
        shared.faults += outcome.allocation_faults;
        add_transitions(shared);
        if (shared.done % kProgressEvery == 0) {
            std::printf("# %llu seeds, the last %llu\n", static_cast<unsigned long long>(shared.done),
                        static_cast<unsigned long long>(seed));
            std::fflush(stdout);
        }
    }
}

pid_t start(Shared &shared, unsigned job, const Arguments &arguments)
{
    std::fflush(nullptr);
    pid_t child = fork();
    if (child == 0)
        work(shared, job, arguments);
    return child;
}

/** Runs the workers; one that dies has found a failure and is restarted. */
std::vector<std::uint64_t> run_workers(Shared &shared, const Arguments &arguments)
{
    std::vector<std::uint64_t> failures;
    std::vector<pid_t> children(arguments.jobs);
    unsigned running = 0;
    for (unsigned job = 0; job < arguments.jobs; job++) {
        children[job] = start(shared, job, arguments);
        running++;
    }
    while (running) {
        int status;
        pid_t child = wait(&status);
        for (unsigned job = 0; job < arguments.jobs; job++) {
            if (children[job] != child)
                continue;
            running--;
            if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
                continue;
            failures.push_back(shared.seed_of_job[job]);
            std::printf("FAILED: seed %llu; replay with: make sim SUITE=%s SEED=%llu\n",
                        static_cast<unsigned long long>(failures.back()), suite->name,
                        static_cast<unsigned long long>(failures.back()));
            if (failures.size() < arguments.most_failures) {
                children[job] = start(shared, job, arguments);
                running++;
            }
        }
    }
    return failures;
}

/** Transitions that no seed took; a small campaign need not take them all. */
bool print_coverage(const Shared &shared)
{
    unsigned i = 0, taken = 0, all = 0;
    std::string missing;
    for (const auto &[name, count] : transitions_taken()) {
        all++;
        if (shared.transitions[i++])
            taken++;
        else
            missing += (missing.empty() ? "" : ", ") + name;
    }
    std::printf("state transitions taken: %u of %u%s%s\n", taken, all, missing.empty() ? "" : "; never: ",
                missing.c_str());
    return taken == all;
}

} // namespace

int main(int argc, char **argv)
{
    Arguments arguments = parse(argc, argv);
    if (!suite)
        return std::fprintf(stderr, "no such suite\n"), 1;
#ifndef __SANITIZE_ADDRESS__
    std::signal(SIGSEGV, bad_access);
    std::signal(SIGBUS, bad_access);
#endif
    if (arguments.seed)
        return show(arguments.seed);
    void *memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return 1;
    Shared &shared = *static_cast<Shared *>(memory);
    shared.next = arguments.first;
    shared.end_time = std::time(nullptr) + static_cast<std::time_t>(arguments.seconds);
    std::time_t began = std::time(nullptr);
    auto failures = run_workers(shared, arguments);
    std::printf("seeds %llu to %llu: %llu kept their promises, %zu failed, in %lld s; %llu messages, %llu events, "
                "%llu connections, %llu resets, %llu crashes, %llu reloads, %llu namespace deletions, "
                "%llu allocation failures, %llu hostile acts\n",
                static_cast<unsigned long long>(arguments.first),
                static_cast<unsigned long long>(shared.next - 1),
                static_cast<unsigned long long>(shared.done), failures.size(),
                static_cast<long long>(std::time(nullptr) - began), static_cast<unsigned long long>(shared.messages),
                static_cast<unsigned long long>(shared.events), static_cast<unsigned long long>(shared.connections),
                static_cast<unsigned long long>(shared.resets), static_cast<unsigned long long>(shared.crashes),
                static_cast<unsigned long long>(shared.reloads),
                static_cast<unsigned long long>(shared.net_deletions), static_cast<unsigned long long>(shared.faults),
                static_cast<unsigned long long>(shared.hostile));
    bool all_taken = suite != &kSuites[0] || print_coverage(shared);
    return failures.empty() && (all_taken || shared.done < kFullCampaign) ? 0 : 1;
}
