//! Made-up jobs, operation by operation, that keep account of what they make ranks lose.

use std::collections::BTreeMap;

use whole_plugin::synthetic::{Job, Operation, Random};

/// What ranks do one after the other. Of what is added, the truth is kept beside it.
#[derive(Debug)]
pub(crate) struct Script {
    pub(crate) job: Job,
    pub(crate) ranks: Vec<Vec<Operation>>,
    free_ns: Vec<u64>,
    random: Random,
    sequences: BTreeMap<(u32, &'static str), u64>,
}

impl Script {
    /// Ranks of a job in which nothing is slow, on one host.
    pub(crate) fn new(ranks: u32, seed: u64) -> Self {
        Self {
            job: Job { ranks, channels: 0, ..Job::healthy(seed) },
            ranks: vec![Vec::new(); ranks as usize],
            free_ns: vec![1_000_000; ranks as usize],
            random: Random(seed),
            sequences: BTreeMap::new(),
        }
    }

    pub(crate) fn communicator(&mut self, ranks: &[u32]) -> u32 {
        self.job.communicators.push(ranks.to_vec());
        self.job.communicators.len() as u32
    }

    /// All ranks compute for as long, but for noise with this mean.
    pub(crate) fn compute(&mut self, ns: u64, noise_ns: f64) {
        for free_ns in &mut self.free_ns {
            *free_ns += ns + self.random.noise(noise_ns) as u64;
        }
    }

    /// A rank needs longer by this.
    pub(crate) fn late(&mut self, rank: u32, ns: u64) {
        self.free_ns[rank as usize] += ns;
    }

    /// The last operation of a rank transfers for longer by this.
    pub(crate) fn transfers_longer(&mut self, rank: u32, ns: u64) {
        self.free_ns[rank as usize] += ns;
        self.ranks[rank as usize].last_mut().expect("an operation").stop_ns += ns;
    }

    /// A number below this, as by chance.
    pub(crate) fn any(&mut self, below: u32) -> u32 {
        (self.random.next() * f64::from(below)) as u32
    }

    fn members(&self, communicator: u32) -> Vec<u32> {
        match communicator.checked_sub(1) {
            Some(number) => self.job.communicators[number as usize].clone(),
            None => (0..self.job.ranks).collect(),
        }
    }

    /// A collective that ends on all ranks so long after the last arrival. `sends` are its sends and receives of each
    /// rank where NCCL has it as such: all share a kernel.
    fn together(&mut self, communicator: u32, transfer_ns: u64, operations: impl Fn(u32) -> Vec<Operation>) {
        let members = self.members(communicator);
        let last_ns = members.iter().map(|rank| self.free_ns[*rank as usize]).max().expect("ranks");
        for (number, rank) in (0..).zip(members) {
            let start_ns = std::mem::replace(&mut self.free_ns[rank as usize], last_ns + transfer_ns);
            self.ranks[rank as usize].extend(operations(number).into_iter().map(|operation| Operation {
                start_ns,
                stop_ns: last_ns + transfer_ns,
                ..operation
            }));
        }
    }

    pub(crate) fn align(&mut self) {
        let last_ns = self.free_ns.iter().copied().max().expect("ranks");
        self.free_ns.fill(last_ns);
    }

    /// A collective of all ranks with a root. Where data goes to the root, the others do not wait.
    pub(crate) fn rooted(&mut self, function: &'static str, root: u32, transfer_ns: u64) {
        let to_root = function == "ncclReduce";
        let next = self.sequences.entry((0, function)).or_default();
        let sequence = std::mem::replace(next, *next + 1);
        let last_ns = self.free_ns.iter().copied().max().expect("ranks");
        for rank in 0..self.job.ranks {
            let from_ns = if to_root && rank != root { self.free_ns[rank as usize] } else { last_ns };
            self.push(rank, from_ns + transfer_ns, operation(function, 0, Some(root), sequence));
        }
        if !to_root {
            self.align();
        }
    }

    pub(crate) fn collective(&mut self, function: &'static str, communicator: u32, transfer_ns: u64) {
        let next = self.sequences.entry((communicator, function)).or_default();
        let sequence = std::mem::replace(next, *next + 1);
        self.together(communicator, transfer_ns, |_| vec![operation(function, communicator, None, sequence)]);
    }

    /// An all-to-all as programs make it before NCCL 2.28: a group of sends and receives, which share a kernel.
    pub(crate) fn grouped(&mut self, communicator: u32, transfer_ns: u64) {
        let ranks = self.members(communicator).len() as u32;
        let message = |function, rank| operation(function, communicator, Some(rank), 0);
        self.together(communicator, transfer_ns, |_| {
            (0..ranks).flat_map(|rank| [message("ncclSend", rank), message("ncclRecv", rank)]).collect()
        });
    }

    /// A rank computes for as long, but for noise with this mean.
    pub(crate) fn work(&mut self, rank: u32, ns: u64, noise_ns: f64) {
        self.free_ns[rank as usize] += ns + self.random.noise(noise_ns) as u64;
    }

    /// A send into a buffer: it ends when the data are there, whenever they are received.
    pub(crate) fn buffered_send(&mut self, from: u32, to: u32, transfer_ns: u64) {
        let sent_ns = self.free_ns[from as usize] + transfer_ns;
        let received_ns = self.free_ns[to as usize].max(sent_ns) + transfer_ns;
        self.push(from, sent_ns, operation("ncclSend", 0, Some(to), 0));
        self.push(to, received_ns, operation("ncclRecv", 0, Some(from), 0));
    }

    /// The next operation of a rank, until this time.
    fn push(&mut self, rank: u32, stop_ns: u64, made: Operation) {
        let start_ns = std::mem::replace(&mut self.free_ns[rank as usize], stop_ns);
        self.ranks[rank as usize].push(Operation { start_ns, stop_ns, ..made });
    }

    /// Each rank sends to the next and receives from the one before, in a kernel that ends when the data has come: what
    /// it sends goes into a buffer.
    pub(crate) fn buffered_ring(&mut self, transfer_ns: u64) {
        let ranks = self.job.ranks;
        let starts = self.free_ns.clone();
        for rank in 0..ranks {
            let (next, before) = ((rank + 1) % ranks, (rank + ranks - 1) % ranks);
            let start_ns = starts[rank as usize];
            let stop_ns = start_ns.max(starts[before as usize]) + transfer_ns;
            for (function, partner) in [("ncclSend", next), ("ncclRecv", before)] {
                let made = operation(function, 0, Some(partner), 0);
                self.ranks[rank as usize].push(Operation { start_ns, stop_ns, ..made });
            }
            self.free_ns[rank as usize] = stop_ns;
        }
    }

    /// A send of one rank of all to another; both end when it is done.
    pub(crate) fn send(&mut self, from: u32, to: u32, transfer_ns: u64) {
        let stop_ns = self.free_ns[from as usize].max(self.free_ns[to as usize]) + transfer_ns;
        self.push(from, stop_ns, operation("ncclSend", 0, Some(to), 0));
        self.push(to, stop_ns, operation("ncclRecv", 0, Some(from), 0));
    }
}

/// The time of all ranks in operations: of each rank, when it was in any.
pub(crate) fn time_ns(ranks: &[Vec<Operation>]) -> u64 {
    let of_rank = |operations: &Vec<Operation>| {
        let mut edges: Vec<(u64, i64)> =
            operations.iter().flat_map(|operation| [(operation.start_ns, 1), (operation.stop_ns, -1)]).collect();
        edges.sort_unstable();
        let (mut open, mut since_ns, mut sum_ns) = (0, 0, 0);
        for (at_ns, change) in edges {
            sum_ns += if open > 0 { at_ns - since_ns } else { 0 };
            open += change;
            since_ns = at_ns;
        }
        sum_ns
    };
    ranks.iter().map(of_rank).sum()
}

fn operation(function: &'static str, communicator: u32, partner: Option<u32>, sequence: u64) -> Operation {
    Operation { communicator, function, partner, start_ns: 0, stop_ns: 0, bytes: 1 << 20, sequence, sends: Vec::new() }
}
