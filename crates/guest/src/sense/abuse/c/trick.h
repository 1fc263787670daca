/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What all tricks share. A trick is a function that prepares what it needs, calls ready(), and then does its work and its trick by turns,
 * for ever. It is in the directory in which it may write, and an unprivileged user.
 *
 * It comes before all other headers, of which it asks for all that they have.
 */
#ifndef TRICK_H
#define TRICK_H

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Work between two tricks, us of CPU time. */
#define WORK_US 1000
/* A port, an abstract name, and FIFOs in the directory, by which a rule says who is a customer. */
#define RULED_PORT 7200
#define RULED_NAME "fed"
#define RULED_FIFO_READ "fifo-read"
#define RULED_FIFO_WRITE "fifo-write"
/* Links to an input device that nobody touches, and to the sound card; the user may open both. */
#define INPUT "input"
#define SOUND "sound"
/* A file that an attended program locks for a moment whenever it is served; the user may read it. */
#define WANTED_LOCK "wanted"
/* An abstract name, by which an attended program answers datagrams. */
#define ASKED_NAME "asked"

#define NR(array) (sizeof(array) / sizeof((array)[0]))

/* The result of a call that must not be -1. Otherwise it says what failed, by which the whole attempt fails. */
#define must(call) must_succeed((long)(call), #call)
long must_succeed(long result, const char *call);
/* The same for a call that the kernel must refuse. */
#define must_fail(call) must_be_refused((long)(call), #call)
void must_be_refused(long result, const char *call);

/* Computes. */
void work(unsigned int us);
/* A trick has been tried once more: one that is never tried proves nothing. */
void tried(void);
/* Waits until shares are measured. */
void ready(void);
/* ready(), and then work and this by turns. */
void keep_trying(void (*trick)(void));
/* The same; each time with less work. */
void keep_trying_each(unsigned int us, void (*trick)(void));
/* A child that does this, and ends with its parent. */
pid_t child(void (*does)(void));
/* So many of them. */
void children(int number, void (*does)(void));
/* Works for ever. */
void hog(void);
/* Work, and then a sleep of so many nanoseconds, for ever. */
void nap(unsigned int work_us, long sleep_ns);
void sleep_ns(long ns);
long now_ns(clockid_t clock);
/* One byte into it, or out of it. */
void give(int fd);
void take(int fd);
/* Into a user namespace of one's own, as its root, and into others that are new (CLONE_NEWNET…). */
void enter_own_namespaces(int more);
/* This text into a file, in one write. */
void put(const char *path, const char *text);

#endif
