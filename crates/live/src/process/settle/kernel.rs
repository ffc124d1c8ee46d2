//! Sums up the operations of a kernel together: some get their times from others.

use job::interval::{Interval, Known, share_kernel};
use journal::reader::Symbols;
use nccl_events::archive::Timing;

use crate::process::calls::{Few, Launch, OfCall};
use crate::process::derived::Execution;
use crate::process::open::OpenEvents;
use crate::process::operations::{Details, Operation, Started};
use crate::sums::{EndedOperation, Member, Sums};

#[derive(Clone, Copy, Debug)]
pub(super) struct Task {
    pub(super) enqueued: u64,
    /// The launch plan (one kernel); 0 if unknown.
    pub(super) plan: u64,
    pub(super) start: u64,
    pub(super) id: u64,
    pub(super) has_ended: bool,
    pub(super) has_times: bool,
    /// Whether no children are expected.
    pub(super) is_alone: bool,
    pub(super) last: u64,
}

/// An operation that ended, with its launch if known.
struct Ended {
    id: u64,
    operation: Operation,
    started: Started,
    call: OfCall,
    launch: Option<Launch>,
}

impl Ended {
    fn own_launch(&self) -> Option<Launch> {
        self.launch.filter(|_| self.call.is_first)
    }

    /// The id that GPU times refer to: the launch's, or the operation's own if copy engines do the work.
    fn timed(&self) -> Option<u64> {
        if self.started.is_by_copy_engines { Some(self.id) } else { Some(self.own_launch()?.id) }
    }
}

impl OpenEvents {
    /// Whether GPU times of a kernel are still expected.
    pub(super) fn awaits_gpu(&self, at: u32, kernel: &[Task]) -> bool {
        self.gpu.times_launches() && self.timed(at, kernel).flatten().any(|id| self.gpu.awaits(id))
    }

    /// Whether the GPU timed all operations of a kernel, which have therefore ended.
    pub(super) fn has_run(&self, at: u32, kernel: &[Task]) -> bool {
        self.gpu.times_launches() && self.timed(at, kernel).all(|id| id.is_some_and(|id| self.gpu.has_timed(id)))
    }

    /// For each operation, the id that GPU times refer to: the launch's, or its own if copy engines do the work.
    fn timed(&self, at: u32, kernel: &[Task]) -> impl Iterator<Item = Option<u64>> {
        let mut launches = None;
        kernel.iter().map(move |task| {
            let operation = self.operations.get(task.id)?;
            if operation.started?.is_by_copy_engines {
                return Some(task.id);
            }
            let call = operation.call?;
            let launches = launches.get_or_insert_with(|| self.calls.launches(task.plan, &call, at));
            launches.of(task.start, &call).filter(|_| call.is_first).map(|launch| launch.id)
        })
    }

    pub(super) fn end_kernel(&mut self, at: u32, kernel: &[Task], sums: &mut Sums, symbols: &Symbols) {
        let mut calls: Few<OfCall> = Few::new();
        let mut ended: Few<Ended> = Few::with_capacity(kernel.len());
        let mut launches = None;
        for task in kernel {
            let Some(operation) = self.operations.remove(task.id) else {
                continue;
            };
            self.network.forget(&operation.unreported);
            let (Some(started), Some(call)) = (operation.started, operation.call) else {
                continue;
            };
            calls.push(call);
            // Captured in a graph, the operation did not run.
            if !call.is_at_capture {
                let launches = launches.get_or_insert_with(|| self.calls.launches(task.plan, &call, at));
                ended.push(Ended { id: task.id, operation, started, call, launch: launches.of(task.start, &call) });
            }
        }
        self.bound_gpu_clock(at, &ended);
        self.sum_up(at, &ended, sums, symbols);
        self.calls.end_kernel(kernel.first().map_or(0, |task| task.plan), at, calls.into_iter());
    }

    /// Bounds the GPU's clock: no kernel began before its launch, or ended after its end was reported.
    fn bound_gpu_clock(&mut self, at: u32, ended: &[Ended]) {
        let Some(context) = self.contexts.get_mut(at) else {
            return;
        };
        for it in ended {
            if let Some((gpu_ns, _)) = it.operation.gpu {
                // A graph's launch was captured long before, or is unknown.
                let launched = it.launch.map(|launch| launch.start);
                let earliest = if it.call.is_captured { Some(it.started.start) } else { launched };
                let not_before = earliest.map(|earliest| (gpu_ns, self.clock.ns(earliest)));
                context.gpu.add(gpu_ns, not_before, it.operation.not_after);
            }
        }
    }

    fn sum_up(&mut self, at: u32, ended: &[Ended], sums: &mut Sums, symbols: &Symbols) {
        let Some(context) = self.contexts.get_mut(at) else {
            return;
        };
        let mut intervals: Few<Interval> = Few::with_capacity(ended.len());
        let mut errors_ns: Few<Option<u64>> = Few::with_capacity(ended.len());
        for it in ended {
            let Ended { operation, started, .. } = it;
            let clock_ns = self.clock.error_ns(started.start);
            let timed = it.timed();
            let is_shared = || ended.iter().filter(|other| other.timed() == timed).count() > 1;
            if let Some((interval, error_ns)) = timed.and_then(|launch| self.gpu.ran(launch, is_shared(), &self.clock))
            {
                intervals.push(interval);
                errors_ns.push(clock_ns.map(|clock_ns| error_ns + clock_ns));
                continue;
            }
            let span = |(from, to): (u64, u64), ns: &dyn Fn(u64) -> u64| (ns(from), ns(to));
            let ns = |ticks| self.clock.ns(ticks);
            let clock = context.gpu.clock();
            // Reads the clock only for the time that counts.
            let known = match (operation.gpu, operation.kernel_on_host) {
                (Some(gpu), _) => {
                    Known { kernel: Some(span(gpu, &|gpu_ns| clock.host_ns(gpu_ns))), ..Known::default() }
                }
                (None, Some(kernel)) => Known { kernel_on_host: Some(span(kernel, &ns)), ..Known::default() },
                (None, None) => {
                    let launch = it.own_launch();
                    let launched = launch.map_or(started.start, |launch| launch.returned());
                    Known {
                        launched: ns(launched),
                        enqueued: span((started.start, operation.stop.unwrap_or(started.start)), &ns),
                        proxy_last: operation.proxy_last.map(ns),
                        is_by_copy_engines: started.is_by_copy_engines,
                        ..Known::default()
                    }
                }
            };
            let interval = Interval::of(&known, 0);
            intervals.push(interval);
            let gpu_ns = if interval.timing == Timing::KernelChannel { clock.quality.error_ns() } else { Some(0) };
            errors_ns.push(gpu_ns.zip(clock_ns).map(|(gpu_ns, clock_ns)| gpu_ns + clock_ns));
        }
        share_kernel(&mut intervals, context.earlier);
        intervals.iter().for_each(|interval| context.earlier.add(interval));
        let knows_ranks = context.by_init.1 > 0;
        let Some(member) = context.member else {
            self.without_communicator += ended.len() as u64;
            return;
        };
        for (it, (interval, error_ns)) in ended.iter().zip(intervals.into_iter().zip(errors_ns)) {
            self.add_to_derived(it, interval, symbols);
            let ended = self.summed_up(it, (member, interval, error_ns), sums, symbols);
            let has_bandwidth = knows_ranks && !it.started.is_by_copy_engines;
            sums.operation(&EndedOperation { has_bandwidth, ..ended });
        }
    }

    /// Adds a send or receive to its derived collective, if there is one.
    fn add_to_derived(&mut self, it: &Ended, interval: Interval, symbols: &Symbols) {
        let Details::PointToPoint { peer } = it.started.details else {
            return;
        };
        let contexts = &self.contexts;
        let ranks = |context: u32| {
            let (rank, ranks) = contexts.get(context)?.by_init;
            Some((rank, usize::try_from(ranks).ok()?))
        };
        if let Some((group, call)) = self.calls.derived(&it.call, symbols, ranks) {
            let member = (symbols.text(it.started.func), peer);
            self.derived.add((group, it.call.replay), call, member, (interval, it.operation.last));
        }
    }

    /// Sums up derived collectives without records since `before`; at the end of a process, all.
    pub(super) fn settle_derived(&mut self, before: u64, sums: &mut Sums, symbols: &Symbols) {
        let has_open = |group| before != u64::MAX && self.calls.has_open(group);
        for (group, execution) in self.derived.take(before, has_open) {
            let Execution { call, interval, .. } = execution;
            let Some(is_whole) = execution.is_whole() else {
                self.calls.reject_collective(group);
                continue;
            };
            let Some(member) = self.contexts.get(call.context).and_then(|context| context.member) else {
                continue;
            };
            let collective = call.pattern.collective();
            let (function, algorithm) = (sums.name(&format!("nccl{}", collective.name())), sums.name(""));
            sums.operation(&EndedOperation {
                member,
                function,
                algorithm,
                is_point_to_point: false,
                peer: None,
                bytes: call.count.saturating_mul(self.meanings.element_bytes(call.datatype, symbols)),
                collective: Some(collective),
                has_bandwidth: is_whole,
                root: call.rank,
                sequence: None,
                interval,
                error_ns: None,
            });
        }
    }

    fn summed_up(
        &mut self,
        Ended { started, call, .. }: &Ended,
        (member, interval, error_ns): (Member, Interval, Option<u64>),
        sums: &mut Sums,
        symbols: &Symbols,
    ) -> EndedOperation {
        let function = self.meanings.function(started.func, started.is_by_copy_engines, (symbols, sums));
        let (algorithm, peer, sequence, root) = match started.details {
            Details::Collective { sequence, root, algorithm, protocol } => {
                let algorithm = self.meanings.algorithm((algorithm, protocol), (symbols, sums));
                (algorithm, None, Some((sequence, call.replay)), root)
            }
            Details::PointToPoint { peer } => {
                (self.meanings.algorithm(Default::default(), (symbols, sums)), Some(peer), None, -1)
            }
        };
        EndedOperation {
            member,
            function: function.name,
            algorithm,
            is_point_to_point: peer.is_some(),
            peer,
            bytes: started.count.saturating_mul(self.meanings.element_bytes(started.datatype, symbols)),
            collective: function.collective,
            has_bandwidth: false,
            root,
            sequence,
            interval,
            error_ns,
        }
    }
}
