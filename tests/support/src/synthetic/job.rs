//! Rings of all-reduces with known arrivals, steps and clocks.

/// Pseudo-random numbers, determined by a seed (splitmix64).
#[derive(Clone, Debug)]
pub struct Random(pub u64);

impl Random {
    fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Uniform from 0 inclusive to 1 exclusive.
    #[expect(clippy::should_implement_trait, reason = "no iterator: it has no end")]
    pub fn next(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// From `least` up to and including `most`.
    pub fn between(&mut self, least: u64, most: u64) -> u64 {
        least + self.bits() % (most - least + 1)
    }

    pub fn once_in(&mut self, n: u64) -> bool {
        self.between(1, n) == 1
    }

    /// Normal, of mean 0 and deviation 1.
    pub fn normal(&mut self) -> f64 {
        let (radius, angle) = ((-2.0 * (1.0 - self.next()).ln()).sqrt(), std::f64::consts::TAU * self.next());
        radius * angle.cos()
    }

    /// Exponential with this mean: noise is one-sided and has a tail.
    pub fn noise(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.next()).ln()
    }
}

#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "the variants say what their fields are")]
pub enum Disturbance {
    Nothing,
    /// From this instance on, a rank is late by this time.
    LateRank {
        rank: u32,
        from: u32,
        ns: u64,
    },
    /// From one rank to the next, latency and time per byte are multiplied by these factors.
    SlowPair {
        from: u32,
        latency: f64,
        time: f64,
    },
    /// From this instance on, a channel is slower by this factor.
    SlowChannel {
        channel: u32,
        from: u32,
        factor: f64,
    },
    /// Once, a rank is late by this time.
    LateOnce {
        rank: u32,
        at: u32,
        ns: u64,
    },
    /// Once, a step from a rank on a channel takes longer by this time.
    SlowOnce {
        from: u32,
        channel: u32,
        at: u32,
        ns: u64,
    },
    /// Steps to and from a rank take this many times as long.
    SlowNic {
        rank: u32,
        factor: f64,
    },
    /// Steps of operations of this size take this many times as long.
    SlowSize {
        bytes: u64,
        factor: f64,
    },
    /// From one rank to the next, this share of the steps takes ten times as long.
    FlakyPair {
        from: u32,
        share: f64,
    },
    /// From this instance on, steps between hosts to and from a host take this many times as long.
    SlowHost {
        host: u32,
        from: u32,
        factor: f64,
    },
    /// Steps between the first and the second half of the hosts take this many times as long.
    Racks {
        factor: f64,
    },
}

/// How the times of steps of healthy links vary, beside [`Job::noise`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "kinds of noise")]
pub enum LinkNoise {
    Nothing,
    LogNormal,
    HeavyTails,
    /// Links differ by 3 % for the whole run.
    Skewed,
    /// What a link takes depends on what it took before.
    Correlated,
    /// In one of 500 operations of a link, its steps take five times as long.
    Bursts,
    /// In each seventeenth operation, all steps take three times as long.
    Common,
}

/// What a link takes now, in times of the usual.
#[derive(Clone, Copy, Debug, Default)]
struct LinkState {
    skew: f64,
    wander: f64,
    burst: bool,
}

impl LinkState {
    fn next_operation(&mut self, noise: LinkNoise, random: &mut Random) {
        if noise == LinkNoise::Bursts {
            self.burst = random.once_in(500);
        }
    }

    fn factor(&mut self, noise: LinkNoise, random: &mut Random, sequence: u32) -> f64 {
        match noise {
            LinkNoise::Nothing => 1.0,
            LinkNoise::LogNormal => (0.5 * random.normal()).exp(),
            LinkNoise::HeavyTails => 1.0 + 0.1 * ((1.0 - random.next()).powf(-1.0 / 1.5) - 1.0),
            LinkNoise::Skewed => 1.0 + 0.03 * self.skew,
            LinkNoise::Correlated => {
                self.wander = 0.97 * self.wander + 0.02 * random.normal();
                (1.0 + self.wander).max(0.5)
            }
            LinkNoise::Bursts => {
                if self.burst {
                    5.0
                } else {
                    1.0
                }
            }
            LinkNoise::Common => {
                if sequence.is_multiple_of(17) {
                    3.0
                } else {
                    1.0
                }
            }
        }
    }
}

/// What delays a rank that is late.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "stages of an operation")]
pub enum Delayed {
    Call,
    Launch,
    Gpu,
}

/// From a call to its launch, and from the launch to the begin of the operation, if nothing delays it.
pub const CALL_NS: u64 = 10_000;

#[derive(Clone, Debug)]
pub struct Job {
    pub ranks: u32,
    pub channels: u32,
    pub instances: u32,
    pub seed: u64,
    pub wrong: Disturbance,
    pub jitter_ns: f64,
    /// Mean noise of a step, as a fraction of its time.
    pub noise: f64,
    pub link_noise: LinkNoise,
    /// Hosts, with equally many ranks each.
    pub hosts: u32,
    /// The stated clock error of each host, with ranks on two hosts or more. `None`: clocks agree.
    pub error_ns: Option<Option<u64>>,
    /// Start, in ns since 1970, if the archive states it.
    pub began_ns: Option<u64>,
    /// The value of `nccl.timing`.
    pub timing: &'static str,
    /// Whether kernels were recorded, NCCL's and others; see [`Operation::computation`].
    pub has_kernels: bool,
    /// Whether the program names its steps, and what it does in them; see [`Operation::ranges`].
    pub has_ranges: bool,
    /// How long before an operation `backward` begins, on all ranks alike.
    pub backward_ns: u64,
    /// Whether calls and launches were recorded, and what delays the late rank.
    pub calls: Option<Delayed>,
    /// Whether recording was switched off where operations are missing; needs `calls`.
    pub is_switched: bool,
    /// Whether CUDA's callback thread reports the operations, instead of the thread that calls and launches.
    pub is_by_callback: bool,
    /// The number of instances on the last rank, if it differs.
    pub last_rank_has: Option<u32>,
    /// The ranks of further communicators; the first contains all.
    pub communicators: Vec<Vec<u32>>,
}

/// Latency of a step in ns, if nothing is wrong.
pub const LATENCY_NS: f64 = 8_000.0;
/// Time of a step per byte in ns, if nothing is wrong.
pub const BYTE_NS: f64 = 0.1;
const STEPS: u32 = 4;
pub const SIZES: [u64; 3] = [1 << 16, 1 << 20, 1 << 23];

impl Job {
    pub fn healthy(seed: u64) -> Self {
        Self {
            ranks: 8,
            channels: 4,
            instances: 300,
            seed,
            wrong: Disturbance::Nothing,
            jitter_ns: 4_000.0,
            noise: 0.08,
            link_noise: LinkNoise::Nothing,
            hosts: 1,
            error_ns: None,
            began_ns: None,
            timing: "cupti",
            has_kernels: false,
            has_ranges: false,
            backward_ns: 1_000,
            calls: None,
            is_switched: false,
            is_by_callback: false,
            last_rank_has: None,
            communicators: Vec::new(),
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub struct Step {
    pub sent_ns: u64,
    /// Time on the network.
    pub ns: u64,
    pub bytes: u64,
}

#[derive(Clone, Debug)]
pub struct Operation {
    /// Its communicator; 0 contains all ranks.
    pub communicator: u32,
    pub function: &'static str,
    /// Rank of the root, or of the other end of a send or receive.
    pub partner: Option<u32>,
    pub start_ns: u64,
    pub stop_ns: u64,
    pub bytes: u64,
    /// NCCL's sequence number; in the archive, sends, receives and all-to-alls have none.
    pub sequence: u64,
    /// For each channel, the steps to the next rank.
    pub sends: Vec<Vec<Step>>,
}

pub fn play(job: &Job) -> Vec<Vec<Operation>> {
    let mut random = Random(job.seed);
    let mut ranks: Vec<Vec<Operation>> = vec![Vec::new(); job.ranks as usize];
    let mut free_ns = vec![1_000_000_u64; job.ranks as usize];
    let mut links = vec![LinkState::default(); (job.ranks * job.channels) as usize];
    let mut skews = Random(job.seed + 1);
    links.iter_mut().for_each(|link| link.skew = skews.normal());
    for sequence in 0..job.instances {
        let bytes = SIZES[sequence as usize % SIZES.len()];
        let arrivals: Vec<u64> = (0..job.ranks)
            .map(|rank| {
                let late_ns = match job.wrong {
                    Disturbance::LateRank { rank: late, from, ns } if rank == late && sequence >= from => ns,
                    Disturbance::LateOnce { rank: late, at, ns } if rank == late && sequence == at => ns,
                    _ => 0,
                };
                // 200 µs of computation between operations.
                free_ns[rank as usize] + 200_000 + random.noise(job.jitter_ns) as u64 + late_ns
            })
            .collect();
        let last_ns = arrivals.iter().copied().max().unwrap();
        let sends: Vec<Vec<Vec<Step>>> = (0..job.ranks)
            .map(|rank| {
                (0..job.channels)
                    .map(|channel| {
                        let link = &mut links[(rank * job.channels + channel) as usize];
                        steps(job, &mut random, link, (rank, channel, sequence), bytes, last_ns)
                    })
                    .collect()
            })
            .collect();
        let ends = sends.iter().flatten().flatten().map(|step| step.sent_ns + step.ns);
        let end_ns = ends.max().unwrap();
        for (rank, (start_ns, sends)) in arrivals.into_iter().zip(sends).enumerate() {
            free_ns[rank] = end_ns;
            let is_there = rank as u32 + 1 < job.ranks || job.last_rank_has.is_none_or(|has| sequence < has);
            if is_there {
                let sequence = sequence.into();
                let (communicator, function, partner) = (0, "ncclAllReduce", None);
                let stop_ns = end_ns;
                let made = Operation { communicator, function, partner, start_ns, stop_ns, bytes, sequence, sends };
                ranks[rank].push(made);
            }
        }
    }
    ranks
}

fn steps(
    job: &Job,
    random: &mut Random,
    link: &mut LinkState,
    (rank, channel, sequence): (u32, u32, u32),
    bytes: u64,
    from_ns: u64,
) -> Vec<Step> {
    let mut sent_ns = from_ns + 1_000;
    let operation_bytes = bytes;
    let bytes = bytes / u64::from(job.channels * STEPS);
    let [from_host, to_host] = [rank, (rank + 1) % job.ranks].map(|rank| job.host(rank));
    let (latency, time) = match job.wrong {
        Disturbance::SlowSize { bytes, factor } if bytes == operation_bytes => (factor, factor),
        Disturbance::SlowPair { from, latency, time } if from == rank => (latency, time),
        Disturbance::SlowNic { rank: slow, factor } if slow == rank || slow == (rank + 1) % job.ranks => {
            (factor, factor)
        }
        Disturbance::SlowChannel { channel: slow, from, factor } if slow == channel && sequence >= from => {
            (factor, factor)
        }
        Disturbance::SlowHost { host, from, factor }
            if sequence >= from && from_host != to_host && [from_host, to_host].contains(&host) =>
        {
            (factor, factor)
        }
        Disturbance::Racks { factor } if (2 * from_host < job.hosts) != (2 * to_host < job.hosts) => (factor, factor),
        _ => (1.0, 1.0),
    };
    let stall_ns = match job.wrong {
        Disturbance::SlowOnce { from, channel: slow, at, ns } if (from, slow, at) == (rank, channel, sequence) => ns,
        _ => 0,
    };
    link.next_operation(job.link_noise, random);
    (0..STEPS)
        .map(|number| {
            let exact = LATENCY_NS * latency + bytes as f64 * BYTE_NS * time;
            let flaky = match job.wrong {
                Disturbance::FlakyPair { from, share } if from == rank && random.next() < share => 10.0,
                _ => 1.0,
            };
            let exact = exact * flaky * link.factor(job.link_noise, random, sequence);
            let ns = (exact * (1.0 + random.noise(job.noise))).round() as u64 + if number == 1 { stall_ns } else { 0 };
            let step = Step { sent_ns, ns, bytes };
            sent_ns += ns + 100;
            step
        })
        .collect()
}

impl Job {
    pub fn host(&self, rank: u32) -> u32 {
        rank * self.host_count() / self.ranks
    }

    pub fn host_count(&self) -> u32 {
        if self.error_ns.is_some() { self.hosts.max(2) } else { self.hosts }
    }

    /// When a rank called an operation, and when it launched it.
    pub fn called_and_launched(&self, rank: usize, operation: &Operation) -> (u64, u64) {
        let late_ns = match self.wrong {
            Disturbance::LateRank { rank: late, from, ns }
                if late as usize == rank && operation.sequence >= u64::from(from) =>
            {
                ns
            }
            Disturbance::LateOnce { rank: late, at, ns }
                if late as usize == rank && operation.sequence == u64::from(at) =>
            {
                ns
            }
            _ => 0,
        };
        let (called_ns, launched_ns) = (operation.start_ns - 2 * CALL_NS, operation.start_ns - CALL_NS);
        match self.calls {
            Some(Delayed::Launch) => (called_ns - late_ns, launched_ns),
            Some(Delayed::Gpu) => (called_ns - late_ns, launched_ns - late_ns),
            _ => (called_ns, launched_ns),
        }
    }
}

impl Operation {
    /// Ranges of the program around the operation: a step, and in it what it does before and after it begins.
    pub fn ranges(&self, before_ns: u64, backward_ns: u64) -> [(&'static str, (u64, u64)); 3] {
        [
            ("step #", (before_ns, self.stop_ns)),
            ("load", (before_ns, self.start_ns - backward_ns - 1_000)),
            ("backward", (self.start_ns - backward_ns, self.stop_ns)),
        ]
    }

    /// When another kernel ran: it overlaps the first half of the operation.
    pub const fn computation(&self) -> (u64, u64) {
        (self.start_ns - 150_000, self.start_ns + (self.stop_ns - self.start_ns) / 2)
    }
}
