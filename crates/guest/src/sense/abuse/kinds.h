/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * All kinds of abuse: family, name, and how many processes or threads want the CPU at once. The function FAMILY_NAME in c/FAMILY.c does it.
 * KIND is made in every form of the scenario, MORE in the full form alone.
 *
 * The next kind is a line here and a function there. A new family is also a file in ATTACK (kinds.rs).
 */

/* Objects that a process has for itself: it writes to them and reads that. */
KIND(own, pipe, 1)
MORE(own, fifo, 1)
KIND(own, unix_stream, 1)
MORE(own, unix_datagram, 1)
MORE(own, unix_packets, 1)
MORE(own, eventfd, 1)
MORE(own, signalfd, 1)
MORE(own, inotify, 1)
MORE(own, epoll, 1)
KIND(own, uring, 1)
MORE(own, splice, 1)
MORE(own, message_queue, 1)
KIND(own, sysv_queue, 1)
MORE(own, many_pipes, 1)

/* Processes that hand work to each other. */
KIND(partners, pipe_ring, 8)
MORE(partners, socket_ring, 8)
MORE(partners, terminal_ring, 8)
KIND(partners, early_ring, 8)
KIND(partners, futexes, 2)
MORE(partners, signals, 2)
MORE(partners, semaphores, 2)
MORE(partners, threads, 2)
KIND(partners, passed_sockets, 2)
MORE(partners, memory_of_child, 2)
MORE(partners, pipe_of_hogs, 16)

/* Ports, and networks of one's own. */
KIND(network, tcp, 1)
MORE(network, tcp6, 1)
KIND(network, udp, 1)
MORE(network, multicast, 1)
KIND(network, own_port, 1)
MORE(network, port_by_address, 1)
KIND(network, partner, 2)
KIND(network, awaited_partner, 2)
KIND(network, accepted_anew, 2)
MORE(network, many_connections, 1)
KIND(network, desktop_port, 1)
MORE(network, ssh_port, 1)
KIND(network, own_network, 2)

/* What a rule names, used by both sides at once. */
KIND(ruled, fifo_read, 1)
KIND(ruled, fifo_write, 1)
KIND(ruled, childs_socket, 2)
MORE(ruled, callers, 2)

/* Terminals. */
KIND(terminals, pty, 1)
KIND(terminals, controlling, 1)
MORE(terminals, pushed_back, 1)
MORE(terminals, nested, 1)
MORE(terminals, shell, 2)
MORE(terminals, console, 1)

/* Input devices. */
KIND(devices, input_without_data, 1)
MORE(devices, input_grabbed, 1)
KIND(devices, input_made_up, 1)
MORE(devices, made_up_refused, 1)

/* Sound. */
MORE(sound, prepared, 1)
KIND(sound, played, 1)
MORE(sound, begun_anew, 1)
MORE(sound, fed_by_a_hog, 2)

/* Children and threads. */
KIND(processes, forks, 1)
MORE(processes, fork_storm, 8)
KIND(processes, heirs, 1)
MORE(processes, siblings, 1)
MORE(processes, vforks, 1)
KIND(processes, execs, 1)
MORE(processes, short_threads, 1)
KIND(processes, many_threads, 64)
MORE(processes, many_hogs, 128)
MORE(processes, lost_leader, 1)
MORE(processes, stopped, 2)
MORE(processes, traced, 2)

/* Sleep, and clocks. */
KIND(timing, before_the_tick, 1)
MORE(timing, timers, 1)
MORE(timing, timer_signals, 1)
MORE(timing, short_sleeps, 1)
KIND(timing, end_of_slice, 1)
KIND(timing, by_turns, 16)
MORE(timing, sleepers, 64)
MORE(timing, yields, 1)

/* Slices, classes, nice values, CPUs. */
KIND(classes, long_slice, 4)
MORE(classes, short_slice, 4)
MORE(classes, batch_and_idle, 2)
KIND(classes, nice_heirs, 2)
KIND(classes, affinity, 2)
MORE(classes, realtime_refused, 1)
MORE(classes, autogroups, 2)
MORE(classes, clamps, 2)

/* Cgroups below one's own, as a user has them. */
MORE(cgroups, heavy, 2)
KIND(cgroups, many, 16)
MORE(cgroups, moves, 2)
KIND(cgroups, ring_of_groups, 16)
MORE(cgroups, sleeping_groups, 16)
MORE(cgroups, idle_or_not, 2)
MORE(cgroups, limits, 2)
MORE(cgroups, frozen, 2)
MORE(cgroups, others_refused, 1)

/* Locks. */
KIND(locks, flocks, 2)
MORE(locks, records, 2)
MORE(locks, mutex_with_inheritance, 2)
MORE(locks, robust_mutex, 2)
KIND(locks, wanted, 1)

/* Who looks like somebody else. */
KIND(disguise, names, 1)
KIND(disguise, display, 2)
MORE(disguise, sound_server, 2)
MORE(disguise, kernel_thread, 2)
MORE(disguise, message_bus, 2)

/* Namespaces. */
KIND(namespaces, many_users, 16)
MORE(namespaces, processes, 2)
MORE(namespaces, entered, 1)
MORE(namespaces, cgroups, 2)

/* Programs of others that somebody waits for. */
KIND(served, asked, 1)
MORE(served, answers_kept, 1)
MORE(served, control_socket, 1)
KIND(served, control_floods, 1)
MORE(served, rule_refused, 1)

/* Memory. */
KIND(memory, faults, 2)
MORE(memory, maps, 1)
MORE(memory, residents, 1)
