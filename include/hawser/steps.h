// SPDX-License-Identifier: GPL-2.0
// HW_STEP(): one step of a walk along a list or another structure that may be long; a member of one that joins or leaves.
//
// The host build counts the steps of each time that a lock is held, so a test can limit their number
// (sim::most_steps_under()). A count is the same on every host; a time is not. Nothing of this exists in the kernel build.
#pragma once

#ifndef __KERNEL__
extern "C" void kapi_sim_step(void) noexcept;
#define HW_STEP() kapi_sim_step()
#else
#define HW_STEP() static_cast<void>(0)
#endif
