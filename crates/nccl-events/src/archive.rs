//! Names with which archives describe locations and regions to programs (`docs/MAPPING.md` §1 and §2), and the numbers
//! of a job's ranks. Locations have properties for these names. OTF2's regions have no properties and use the canonical
//! name: `nccl::<class>::<name>`; `nvtx::<domain>::<name>` for a range of the program, `nvtx-mark::<domain>::<name>` for
//! a mark. Only kernels keep the name given by the compiler: they are all regions on locations of the kind `stream`
//! except copies.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::collective::Function;
use crate::{CommInit, Kind, MOST_RANKS};

macro_rules! named {
    ($($(#[$meta:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident $text:literal,)+ })+) => {$(
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name {
            $($(#[$doc])* $variant,)+
        }

        impl $name {
            /// All values, in order.
            pub const ALL: [Self; [$($text),+].len()] = [$(Self::$variant),+];

            /// The name in archives.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)+
                }
            }

            /// The value with this name.
            pub fn parse(name: &str) -> Option<Self> {
                Self::ALL.into_iter().find(|value| value.name() == name)
            }
        }
    )+};
}

named! {
    /// What a location stands for.
    LocationKind {
        /// A thread that called NCCL.
        ApiThread "api-thread",
        /// A thread of CUDA that calls host functions.
        CallbackThread "callback-thread",
        /// Threads of the proxy, whose lives do not overlap.
        ProxyThread "proxy-thread",
        /// A rank of a communicator.
        Communicator "communicator",
        /// A rank of a communicator whose process was not recorded.
        NotRecorded "not-recorded",
        /// A CUDA stream.
        Stream "stream",
        /// The ranges of an NVTX domain that one thread starts and any thread ends.
        Ranges "ranges",
    }

    /// The classes of regions. Names are unique within a class.
    RegionClass {
        /// Calls of NCCL's API.
        Api "call",
        /// Work inside a call: launch plans, enqueueing.
        Enqueue "enqueue",
        /// Kernel launches.
        Launch "launch",
        /// Collective and point-to-point operations, for the time they ran.
        Operation "operation",
        /// Several operations that ran as one kernel.
        Fused "fused",
        /// Network transfers by the proxy.
        Network "transfer",
        /// Kernel channels.
        Channel "channel",
        /// States of proxy threads, outside of transfers.
        Proxy "proxy",
        /// Kernels.
        Kernel "kernel",
        /// Copies by a GPU.
        Copy "copy",
        /// Ranges that the program or a library names through NVTX.
        User "user",
        /// Moments that the program or a library marks through NVTX.
        Mark "mark",
    }

    /// How an operation's interval was measured: attribute `nccl.timing`.
    Timing {
        /// CUPTI's times of the operation's kernel or copies.
        Cupti "cupti",
        /// CUDA events around the operation's launch.
        Event "event",
        /// Kernel channels, on the GPU's timer.
        KernelChannel "kernelch",
        /// Kernel channels without GPU time: when the host learned of them.
        KernelChannelHost "kernelch-host",
        /// From the kernel launch to the last proxy operation.
        Proxy "proxy",
        /// No measurement of its own: the time of the other operations of its kernel.
        Kernel "shared-kernel",
        /// Only the enqueueing is known.
        Enqueue "enqueue",
    }
}

impl Timing {
    /// Whether the interval is the operation's own, not only that of something around it.
    pub const fn is_measured(self) -> bool {
        !matches!(self, Self::Enqueue | Self::Kernel)
    }
}

/// The canonical name of a region other than a kernel.
pub fn canonical_name(class: RegionClass, name: &str) -> String {
    format!("nccl::{}::{name}", class.name())
}

/// The canonical names of regions that show no function of NCCL's API, and what follows a function's name.
#[expect(missing_docs, reason = "the values say what they name")]
pub mod region {
    pub const GROUP: &str = "NCCL group";
    pub const LAUNCH: &str = "NCCL launch";
    pub const LAUNCH_PLAN: &str = "NCCL launch plan";
    pub const CE_SYNC: &str = "NCCL CE sync";
    pub const CE_BATCH: &str = "NCCL CE batch";
    pub const KERNEL_CHANNEL: &str = "kernel channel";
    pub const NET_SEND: &str = "netSend";
    pub const NET_RECV: &str = "netRecv";
    pub const SEND_STEP: &str = "send step";
    pub const RECEIVE_STEP: &str = "receive step";
    /// A thread has transfers in flight.
    pub const NETWORK: &str = "NCCL network";
    /// After the function's name: several operations of it in one kernel, an operation by copy engines, and the
    /// enqueueing of operations.
    pub const FUSED: &str = " (fused)";
    pub const BY_COPY_ENGINES: &str = " (CE)";
    pub const ENQUEUE: &str = " enqueue";
    pub const CE_ENQUEUE: &str = " (CE) enqueue";
}

/// The kind of event that the region with this canonical name shows; `None` if it shows none.
pub fn kind_shown(class: RegionClass, name: &str) -> Option<Kind> {
    let is_message = matches!(Function::from_region(name), Some(Function::Send | Function::Recv | Function::SendRecv));
    Some(match class {
        RegionClass::Api if name == region::GROUP => Kind::GroupApi,
        RegionClass::Api if is_message => Kind::P2pApi,
        RegionClass::Api if Function::from_region(name).is_some() => Kind::CollApi,
        RegionClass::Enqueue if name == region::LAUNCH_PLAN => Kind::Group,
        RegionClass::Enqueue if name == region::CE_SYNC => Kind::CeSync,
        RegionClass::Enqueue if name == region::CE_BATCH => Kind::CeBatch,
        RegionClass::Enqueue | RegionClass::Operation if is_message => Kind::P2p,
        RegionClass::Enqueue if name.ends_with(region::CE_ENQUEUE) => Kind::CeColl,
        RegionClass::Operation if name.ends_with(region::BY_COPY_ENGINES) => Kind::CeColl,
        RegionClass::Enqueue | RegionClass::Operation => Kind::Coll,
        RegionClass::Launch => Kind::KernelLaunch,
        RegionClass::Network if matches!(name, region::NET_SEND | region::NET_RECV) => Kind::ProxyOp,
        RegionClass::Network if name == region::NETWORK => return None,
        RegionClass::Network if matches!(name, region::SEND_STEP | region::RECEIVE_STEP) => Kind::ProxyStep,
        RegionClass::Network => Kind::NetPlugin,
        RegionClass::Channel if name == region::KERNEL_CHANNEL => Kind::KernelCh,
        RegionClass::Channel => Kind::KernelPhase,
        RegionClass::Proxy => Kind::ProxyCtrl,
        RegionClass::Api | RegionClass::Fused | RegionClass::Kernel => return None,
        RegionClass::Copy | RegionClass::User | RegionClass::Mark => return None,
    })
}

/// Between the names of ranges in `nvtx.ranges`.
pub const PATH_SEPARATOR: &str = " > ";
/// `nvtx.ranges` where a process had more texts than its part has room for.
pub const OTHER_RANGES: &str = "(other ranges)";

/// The names of ranges, outermost first, as `nvtx.ranges` has them. A separator in a name is written as another one.
pub fn path_of_ranges<N: AsRef<str>>(names: impl IntoIterator<Item = N>) -> String {
    let names = names.into_iter().map(|name| name.as_ref().replace(PATH_SEPARATOR, " / "));
    names.collect::<Vec<_>>().join(PATH_SEPARATOR)
}

/// The prefixes of the canonical names of ranges and marks; domain and name follow.
const RANGE: &str = "nvtx::";
const MARK: &str = "nvtx-mark::";

/// The canonical name of a range's or mark's region. `domain` is empty for NVTX's default domain.
pub fn canonical_range_name(class: RegionClass, domain: &str, name: &str) -> String {
    let prefix = if class == RegionClass::Mark { MARK } else { RANGE };
    format!("{prefix}{domain}::{name}")
}

/// The class of a region and its name, from its canonical name. `None` for kernels and for other writers'.
pub fn parse_canonical_name(canonical: &str) -> Option<(RegionClass, &str)> {
    for (prefix, class) in [(RANGE, RegionClass::User), (MARK, RegionClass::Mark)] {
        if let Some((_domain, name)) = canonical.strip_prefix(prefix).and_then(|rest| rest.split_once("::")) {
            return Some((class, name));
        }
    }
    let (class, name) = canonical.strip_prefix("nccl::")?.split_once("::")?;
    Some((RegionClass::parse(class)?, name))
}

impl CommInit<'_> {
    /// Rank and number of ranks as `init` stated them; `None` if no communicator has these.
    pub fn possible(rank: i32, ranks: i32) -> Option<(u32, u32)> {
        let ranks = u32::try_from(ranks).ok().filter(|ranks| *ranks <= MOST_RANKS)?;
        Some((u32::try_from(rank).ok().filter(|rank| *rank < ranks)?, ranks))
    }
}

/// What numbers a rank of the job.
#[derive(Clone, Debug, Default)]
pub struct RankIdentity {
    /// The rank's process.
    pub process: usize,
    /// The rank that the launcher gave to the process.
    pub launcher_rank: Option<u32>,
    /// The rank's number in each of its communicators.
    pub members: BTreeMap<u32, u32>,
}

/// The numbers by which users know the ranks of a job. Returns the communicator that contains all ranks of the job, if
/// there is one, and each rank's number: its rank in that communicator, otherwise the launcher's rank if the process
/// has no other rank.
pub fn number(ranks: &[RankIdentity]) -> (Option<u32>, Vec<Option<u32>>) {
    let mut ranks_by_process: BTreeMap<usize, usize> = BTreeMap::new();
    for rank in ranks {
        *ranks_by_process.entry(rank.process).or_default() += 1;
    }
    let launcher_rank =
        |rank: &RankIdentity| rank.launcher_rank.filter(|_| ranks_by_process.get(&rank.process) == Some(&1));
    let first = ranks.first().map(|rank| &rank.members);
    let has_all = |comm: &u32| ranks.iter().all(|rank| rank.members.contains_key(comm));
    let all = first.into_iter().flat_map(BTreeMap::keys).copied().filter(has_all);
    // A split may contain all ranks in another order than the launcher's.
    let alike = |comm: &u32| {
        let known = ranks.iter().filter(|rank| launcher_rank(rank).is_some());
        known.filter(|rank| rank.members.get(comm).copied() == rank.launcher_rank).count()
    };
    let world = all.max_by_key(|comm| (alike(comm), Reverse(*comm)));
    let number = |rank: &RankIdentity| match world {
        Some(world) => rank.members.get(&world).copied(),
        None => launcher_rank(rank),
    };
    (world, ranks.iter().map(number).collect())
}

#[cfg(test)]
mod tests {
    mod archive {
        use crate::archive::*;

        #[test]
        fn names_lead_back_to_classes() {
            for class in RegionClass::ALL {
                // A phase may have a name like `a::b`.
                for name in ["a name", "a::b"] {
                    let canonical = canonical_name(class, name);
                    assert_eq!(parse_canonical_name(&canonical), Some((class, name)), "{canonical}");
                }
            }
            for class in [RegionClass::User, RegionClass::Mark] {
                assert_eq!(parse_canonical_name(&canonical_range_name(class, "", "a::b")), Some((class, "a::b")));
            }
            for other in ["MPI_Send", "_Z3foov", "nccl::Other::foo()", "nccl::call"] {
                assert_eq!(parse_canonical_name(other), None, "{other}");
            }
            for kind in LocationKind::ALL {
                assert_eq!(LocationKind::parse(kind.name()), Some(kind));
            }
        }
    }

    mod ranks {
        use crate::{CommInit, MOST_RANKS};

        #[test]
        fn a_rank_is_below_a_size_that_a_machine_can_have() {
            assert_eq!(
                [(0, 1), (1, 2)].map(|(rank, ranks)| CommInit::possible(rank, ranks)),
                [Some((0, 1)), Some((1, 2))]
            );
            let most = MOST_RANKS.cast_signed();
            assert_eq!(CommInit::possible(most - 1, most), Some((MOST_RANKS - 1, MOST_RANKS)));
            for (rank, ranks) in
                [(0, 0), (-1, 2), (-1, -1), (2, 2), (0, most + 1), (i32::MAX, i32::MAX), (i32::MIN, i32::MIN)]
            {
                assert_eq!(CommInit::possible(rank, ranks), None, "{rank} of {ranks}");
            }
        }
    }
}
