/* SPDX-License-Identifier: GPL-2.0 */
/* Replaces glibc's header, in which libstdc++ looks for the C library that it uses: none. */
#ifndef HAWSER_FREESTANDING_FEATURES_H
#define HAWSER_FREESTANDING_FEATURES_H

#define __GLIBC_PREREQ(major, minor) 0

#endif
