//! The operations of a kernel are summed up together: some of them tell when others ran.

use job::interval::{Interval, Known, share_kernel};
use journal::reader::Symbols;
use nccl_events::archive::Timing;
use nccl_events::collective::shape;

use crate::process::derived::EndedCollective;
use crate::process::open::OpenEvents;
use crate::process::operations::{Details, Operation, Started};
use crate::sums::{EndedOperation, Member, Sums};

/// An operation in the order of kernels.
#[derive(Clone, Copy, Debug)]
pub(super) struct Task {
    pub(super) enqueued: u64,
    /// The launch plan (one kernel); 0: unknown.
    pub(super) plan: u64,
    pub(super) start: u64,
    pub(super) id: u64,
    pub(super) has_ended: bool,
    pub(super) has_times: bool,
    /// Whether children are not to be expected.
    pub(super) is_alone: bool,
    /// Whether a GPU is yet to tell when it ran.
    pub(super) is_awaited: bool,
    pub(super) last: u64,
}

/// The launch of an operation that may be timed.
pub(super) fn launch(id: u64, started: &Started, operation: &Operation) -> Option<u64> {
    if started.is_by_copy_engines { Some(id) } else { operation.call?.launch }
}

impl OpenEvents {
    /// Sums up the operations of a kernel.
    pub(super) fn end_kernel(&mut self, at: u32, kernel: &[Task], sums: &mut Sums, symbols: &Symbols) {
        let mut ended: Vec<(u64, Operation, Started)> = Vec::with_capacity(kernel.len());
        for task in kernel {
            let Some(mut operation) = self.operations.remove(task.id) else {
                continue;
            };
            self.network.forget(&operation.unreported);
            let Some(started) = operation.started else {
                continue;
            };
            if operation.call.is_none() {
                operation.call = self.calls.of_operation(started.parent, started.slot, started.start, at);
            }
            // Put into a graph, it did not run.
            if !operation.call.is_some_and(|call| call.is_at_capture) {
                ended.push((task.id, operation, started));
            }
        }
        let Some(context) = self.contexts.get_mut(at) else {
            return;
        };
        let mut intervals: Vec<Interval> = Vec::with_capacity(ended.len());
        let mut errors_ns: Vec<Option<u64>> = Vec::with_capacity(ended.len());
        let launches: Vec<Option<u64>> = ended.iter().map(|(id, it, started)| launch(*id, started, it)).collect();
        for ((_, operation, started), launch) in ended.iter().zip(&launches) {
            let clock_ns = self.clock.error_ns(started.start);
            let is_shared = || launches.iter().filter(|other| *other == launch).count() > 1;
            if let Some((interval, error_ns)) = launch.and_then(|launch| self.gpu.ran(launch, is_shared(), &self.clock))
            {
                intervals.push(interval);
                errors_ns.push(Some(error_ns + clock_ns));
                continue;
            }
            let call = operation.call.unwrap_or_default();
            let stop = operation.stop.unwrap_or(started.start);
            let span = |(from, to): (u64, u64), ns: &dyn Fn(u64) -> u64| (ns(from), ns(to));
            let clock = context.gpu.clock();
            let known = Known {
                launched: self.clock.ns(call.launched.unwrap_or(started.start)),
                enqueued: span((started.start, stop), &|ticks| self.clock.ns(ticks)),
                kernel: operation.gpu.map(|gpu| span(gpu, &|gpu_ns| clock.host_ns(gpu_ns))),
                kernel_on_host: operation.kernel_on_host.map(|it| span(it, &|ticks| self.clock.ns(ticks))),
                proxy_last: operation.proxy_last.map(|last| self.clock.ns(last)),
                unfinished: false,
                is_by_copy_engines: started.is_by_copy_engines,
            };
            let interval = Interval::of(&known, 0);
            intervals.push(interval);
            let gpu_ns = if interval.timing == Timing::KernelChannel { context.gpu.error_ns() } else { Some(0) };
            errors_ns.push(gpu_ns.map(|gpu_ns| gpu_ns + clock_ns));
        }
        share_kernel(&mut intervals, context.earlier);
        intervals.iter().for_each(|interval| context.earlier.add(interval));
        let knows_ranks = context.said.1 > 0;
        let Some(member) = context.member else {
            self.without_communicator += ended.len() as u64;
            return;
        };
        for ((_, operation, started), (interval, error_ns)) in ended.iter().zip(intervals.into_iter().zip(errors_ns)) {
            self.add_to_derived((operation, started), interval, symbols);
            let ended = self.summed_up((operation, started), (member, interval, error_ns), sums, symbols);
            let has_bandwidth = knows_ranks && !started.is_by_copy_engines;
            sums.operation(&EndedOperation { has_bandwidth, ..ended });
        }
    }

    /// A send or receive may be one of those that a collective is made of.
    fn add_to_derived(&mut self, (operation, started): (&Operation, &Started), interval: Interval, symbols: &Symbols) {
        let Details::PointToPoint { peer } = started.details else {
            return;
        };
        let contexts = &self.contexts;
        let ranks = |context: u32| {
            let (rank, ranks) = contexts.get(context)?.said;
            Some((rank, usize::try_from(ranks).ok()?))
        };
        if let Some((group, call)) = self.calls.derived(started.parent, symbols, ranks) {
            let replay = operation.call.map_or(0, |call| call.replay);
            self.derived.add((group, replay), call, (started.func, peer), (interval, operation.last));
        }
    }

    /// Sums up collectives that were made of sends and receives.
    pub(super) fn settle_derived(&mut self, before: u64, sums: &mut Sums, symbols: &Symbols) {
        for EndedCollective { call, interval, is_whole } in self.derived.take(before) {
            let Some(member) = self.contexts.get(call.context).and_then(|context| context.member) else {
                continue;
            };
            let shape = shape(call.pattern.func());
            let (function, algorithm) = (sums.name(&format!("nccl{}", call.pattern.func())), sums.name(""));
            sums.operation(&EndedOperation {
                member,
                function,
                algorithm,
                is_point_to_point: false,
                peer: None,
                bytes: call.count.saturating_mul(self.meanings.element_bytes(call.datatype, symbols)),
                shape,
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
        (operation, started): (&Operation, &Started),
        (member, interval, error_ns): (Member, Interval, Option<u64>),
        sums: &mut Sums,
        symbols: &Symbols,
    ) -> EndedOperation {
        let function = self.meanings.function(started.func, started.is_by_copy_engines, (symbols, sums));
        let replay = operation.call.map_or(0, |call| call.replay);
        let (algorithm, peer, sequence, root) = match started.details {
            Details::Collective { sequence, root, algorithm, protocol } => {
                let algorithm = self.meanings.algorithm((algorithm, protocol), (symbols, sums));
                (algorithm, None, Some((sequence, replay)), root)
            }
            Details::PointToPoint { peer } => {
                let none = self.meanings.algorithm(Default::default(), (symbols, sums));
                (none, Some(peer), None, -1)
            }
        };
        EndedOperation {
            member,
            function: function.name,
            algorithm,
            is_point_to_point: peer.is_some(),
            peer,
            bytes: started.count.saturating_mul(self.meanings.element_bytes(started.datatype, symbols)),
            shape: function.shape,
            has_bandwidth: false,
            root,
            sequence,
            interval,
            error_ns,
        }
    }
}
