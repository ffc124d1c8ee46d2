//! Jobs in virtual time, whose truth is known: for tests.

use std::collections::BTreeMap;

use crate::lateness::kernels::{Collective, End, Kernel, Kernels};
use crate::read::NONE;
use nccl_events::collective::Flow;

pub(super) const MS: f64 = 1e6;

/// Numbers that are the same in each run (SplitMix64).
#[derive(Clone, Debug)]
pub(super) struct Random(u64);

impl Random {
    pub(super) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Above 0 and below 1.
    pub(super) fn uniform(&mut self) -> f64 {
        (crate::units::real(self.next() >> 11) + 0.5) / 9_007_199_254_740_992.0
    }

    pub(super) fn normal(&mut self) -> f64 {
        (-2.0 * self.uniform().ln()).sqrt() * (std::f64::consts::TAU * self.uniform()).cos()
    }

    pub(super) fn exponential(&mut self) -> f64 {
        -self.uniform().ln()
    }

    /// Heavy-tailed, at least 1.
    pub(super) fn pareto(&mut self, power: f64) -> f64 {
        self.uniform().powf(-1.0 / power)
    }

    pub(super) fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }
}

/// A job of ranks that each have a host and GPU streams; times are in ns.
#[derive(Clone, Debug)]
pub(super) struct Simulation {
    hosts: Vec<f64>,
    streams: Vec<BTreeMap<u32, f64>>,
    communicators: Vec<Vec<usize>>,
    kernels: Vec<(Kernel, Vec<(bool, usize)>)>,
    /// Flow, communicator, kernels, whether it is the first.
    collectives: Vec<(Flow, u32, Vec<usize>, bool)>,
    error_ns: Option<u64>,
    pub(super) unreported: Vec<Vec<u64>>,
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "times of seconds in ns")]
fn whole(ns: f64) -> u64 {
    ns.max(0.0) as u64
}

impl Simulation {
    pub(super) fn new(ranks: usize) -> Self {
        Self {
            hosts: vec![1e9; ranks],
            streams: vec![BTreeMap::new(); ranks],
            communicators: Vec::new(),
            kernels: Vec::new(),
            collectives: Vec::new(),
            error_ns: Some(0),
            unreported: vec![Vec::new(); ranks],
        }
    }

    /// The same job on clocks that are ahead by so much.
    pub(super) fn shifted(mut self, ahead_ns: &[u64], error_ns: Option<u64>) -> Self {
        for (kernel, _) in &mut self.kernels {
            kernel.start_ns += ahead_ns[kernel.rank as usize];
            kernel.stop_ns += ahead_ns[kernel.rank as usize];
        }
        self.error_ns = error_ns;
        self
    }

    pub(super) fn ranks(&self) -> usize {
        self.hosts.len()
    }

    pub(super) fn communicator(&mut self, ranks: impl IntoIterator<Item = usize>) -> u32 {
        self.communicators.push(ranks.into_iter().collect());
        u32::try_from(self.communicators.len() - 1).expect("few")
    }

    pub(super) fn work(&mut self, rank: usize, ns: f64) {
        self.hosts[rank] += ns.max(0.0);
    }

    pub(super) fn synchronize(&mut self, rank: usize, stream: u32) {
        let free = self.streams[rank].get(&stream).copied().unwrap_or(0.0);
        self.hosts[rank] = self.hosts[rank].max(free);
    }

    /// NCCL is called for what it does not report.
    pub(super) fn unreported_call(&mut self, rank: usize) {
        self.unreported[rank].push(whole(self.hosts[rank]));
    }

    fn launch(&mut self, rank: usize, stream: u32) -> f64 {
        let free = self.streams[rank].get(&stream).copied().unwrap_or(0.0);
        self.hosts[rank] += 5e3;
        free.max(self.hosts[rank] + 4e3)
    }

    fn kernel(&mut self, rank: usize, (stream, communicator): (u32, u32), start: f64, stop: f64) -> usize {
        self.streams[rank].insert(stream, stop);
        let kernel = Kernel {
            rank: u32::try_from(rank).expect("few"),
            stream,
            communicator,
            function: 0,
            collective: NONE,
            is_root: false,
            start_ns: whole(start),
            stop_ns: whole(stop),
            wait_ns: 0,
            launched_ns: whole(self.hosts[rank]),
            before: NONE,
            after: NONE,
            ends: (0, 0),
        };
        self.kernels.push((kernel, Vec::new()));
        self.kernels.len() - 1
    }

    /// A collective of all ranks of a communicator; the host waits for it.
    pub(super) fn collective(&mut self, communicator: u32, ns: f64) {
        self.collective_on(communicator, 0, Flow::AllToAll, 0, ns, true);
    }

    pub(super) fn collective_on(
        &mut self,
        communicator: u32,
        stream: u32,
        flow: Flow,
        root: usize,
        ns: f64,
        waits: bool,
    ) {
        let ranks = self.communicators[communicator as usize].clone();
        let starts: Vec<f64> = ranks.iter().map(|rank| self.launch(*rank, stream)).collect();
        let last = starts.iter().copied().fold(0.0, f64::max);
        let mut made = Vec::new();
        for (place, rank) in ranks.iter().enumerate() {
            let base = match flow {
                Flow::AllToAll => last,
                Flow::FromRoot => starts[root].max(starts[place]),
                Flow::ToRoot if place == root => last,
                Flow::ToRoot => starts[place],
            };
            let kernel = self.kernel(*rank, (stream, communicator), starts[place], base + ns);
            self.kernels[kernel].0.is_root = place == root && flow != Flow::AllToAll;
            made.push(kernel);
            if waits {
                self.synchronize(*rank, stream);
            }
        }
        let is_first = !self.collectives.iter().any(|(_, other, ..)| *other == communicator);
        self.collectives.push((flow, communicator, made, is_first));
    }

    /// A message on one stream; `is_buffered`: neither the send nor its host waits for the receive.
    pub(super) fn message(&mut self, communicator: u32, from: usize, to: usize, ns: f64, is_buffered: bool) {
        self.message_on(communicator, [from, to], [0, 0], ns, is_buffered);
    }

    /// A message that is sent on one stream and received on another.
    pub(super) fn message_on(
        &mut self,
        communicator: u32,
        [from, to]: [usize; 2],
        [sends, receives]: [u32; 2],
        ns: f64,
        is_buffered: bool,
    ) {
        let (sent, received) = (self.launch(from, sends), self.launch(to, receives));
        let come = sent.max(received);
        let send_end = if is_buffered { sent + ns } else { come + ns };
        let send = self.kernel(from, (sends, communicator), sent, send_end);
        let receive = self.kernel(to, (receives, communicator), received, (come + ns).max(send_end));
        self.kernels[send].1.push((true, receive));
        self.kernels[receive].1.push((false, send));
        self.synchronize(to, receives);
        if !is_buffered {
            self.synchronize(from, sends);
        }
    }

    /// The kernels as they are recorded.
    pub(super) fn kernels(&self) -> Kernels {
        let mut order: Vec<usize> = (0..self.kernels.len()).collect();
        order.sort_by_key(|at| {
            let kernel = &self.kernels[*at].0;
            (kernel.rank, kernel.start_ns, *at)
        });
        let mut place = vec![0; order.len()];
        for (now, before) in (0_u32..).zip(&order) {
            place[*before] = now;
        }
        let mut found = Kernels {
            unreported: self.unreported.clone(),
            unrecorded: vec![Vec::new(); self.ranks()],
            ..Kernels::default()
        };
        for before in &order {
            let (kernel, ends) = &self.kernels[*before];
            let from = u32::try_from(found.ends.len()).expect("few");
            found.ends.extend(ends.iter().map(|(is_send, other)| End {
                kernel: place[*other],
                is_send: *is_send,
                error_ns: self.error_ns,
            }));
            let to = u32::try_from(found.ends.len()).expect("few");
            found.all.push(Kernel { ends: (from, to), ..kernel.clone() });
        }
        for rank in 0..self.ranks() {
            let at = |rank: usize| found.all.partition_point(|kernel| (kernel.rank as usize) < rank);
            found.ranks.push(at(rank)..at(rank + 1));
        }
        for (number, (flow, communicator, members, is_first)) in (0..).zip(&self.collectives) {
            let from = u32::try_from(found.members.len()).expect("few");
            found.members.extend(members.iter().map(|member| place[*member]));
            let to = u32::try_from(found.members.len()).expect("few");
            for member in members {
                found.all[place[*member] as usize].collective = number;
            }
            let has_later = self.collectives.iter().any(|(_, other, _, is_first)| other == communicator && !is_first);
            found.collectives.push(Collective {
                communicator: *communicator,
                flow: *flow,
                members: (from, to),
                is_whole: true,
                is_warm_up: *is_first && has_later,
                error_ns: self.error_ns,
                is_by_lengths: false,
            });
        }
        found.relate();
        found
    }
}
