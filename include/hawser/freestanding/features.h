/* SPDX-License-Identifier: GPL-2.0 */
/* Stands in for glibc's header, by which libstdc++ asks which C library it sits on: on none. */
#ifndef HAWSER_FREESTANDING_FEATURES_H
#define HAWSER_FREESTANDING_FEATURES_H

#define __GLIBC_PREREQ(major, minor) 0

#endif
