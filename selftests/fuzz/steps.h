// SPDX-License-Identifier: GPL-2.0
// Inputs that are sequences of steps, eight bytes each: reading them, and adding, doubling, moving and
// removing whole steps, so that a useful sequence is the beginning of the next.
#pragma once

#include <kapi/sim/random.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t *data, std::size_t size, std::size_t max_size);

using Step = std::array<std::uint8_t, 8>;
constexpr std::size_t kMaxSteps = 64;

inline std::vector<Step> steps_of(const std::uint8_t *data, std::size_t size)
{
    std::vector<Step> steps(std::min(size / sizeof(Step), kMaxSteps));
    if (!steps.empty())
        std::memcpy(steps.data(), data, steps.size() * sizeof(Step));
    return steps;
}

/** Adds, doubles, moves or removes one whole step. */
inline void mutate_order(std::vector<Step> &steps, sim::Random &random)
{
    auto any = [&] { return steps.begin() + static_cast<std::ptrdiff_t>(random.below(steps.size())); };
    switch (steps.empty() ? 0 : random.below(5)) {
    case 0:
        steps.insert(steps.empty() ? steps.end() : any(), Step{static_cast<std::uint8_t>(random.below(256))});
        break;
    case 1: {
        Step step = *any();
        steps.insert(any(), step);
        break;
    }
    case 2:
        std::iter_swap(any(), any());
        break;
    case 3:
        steps.erase(any());
        break;
    default:
        break;
    }
    if (steps.empty())
        steps.push_back({});
}

/** Implements LLVMFuzzerCustomMutator(): changes the order of steps, and then bytes in one of them. */
inline std::size_t mutate_steps(std::uint8_t *data, std::size_t size, std::size_t max_size, unsigned int seed)
{
    sim::Random random(seed);
    std::vector<Step> steps = steps_of(data, size);
    std::size_t limit = std::min(max_size / sizeof(Step), kMaxSteps);
    if (limit == 0)
        return 0;
    mutate_order(steps, random);
    steps.resize(std::min(steps.size(), limit));
    LLVMFuzzerMutate(steps[random.below(steps.size())].data(), sizeof(Step), sizeof(Step));
    std::memcpy(data, steps.data(), steps.size() * sizeof(Step));
    return steps.size() * sizeof(Step);
}
