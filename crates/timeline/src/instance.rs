//! A region instance, the unit of what is shown: which event it shows, which part of it, and as which region.

use journal::format::Symbol;
use model::tables::{EventRow, InTable, Row};
use nccl_events::archive::RegionClass;
use nccl_events::collective::Pattern;
use nccl_events::ids::{index, index_u32};
use rustc_hash::FxHashMap;

// [`RegionInstance::tie`] reserves five bits for the kind.
const _: () = assert!((InstanceKind::Work as u8) < 1 << 5);
// Each step has several instances.
const _: () = assert!(size_of::<RegionInstance>() <= 16);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegionInstance {
    pub source: Source,
    /// Breaks ties: an instance recorded earlier is around one recorded later.
    pub order: u32,
    pub region: RegionNumber,
    pub kind: InstanceKind,
    /// Whether this is the last of consecutive parts, which gets the attributes known at the end.
    pub is_last: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Source {
    Event(EventRow),
    /// A call of `init` or `finalize`: an index in [`model::tables::Tables::comm_calls`].
    CommCall(u32),
    /// An operation: an index of operations.
    Operation(u32),
    /// A call that NCCL turns into sends and receives: an index in
    /// [`model::links::derived::DerivedCollectives::calls`].
    DerivedCall(u32),
    /// The collective of such a call: the index of its first operation.
    Derived(u32),
    /// A kernel or a copy: an index in [`model::links::gpu_work::GpuWork::all`].
    Work(u32),
    /// A range or a mark: an index in [`model::tables::ranges::Ranges::all`].
    Range(u32),
    /// How many transfers a thread did.
    Transfers(u32),
    /// Operations that ran as one kernel: an index in [`Regions::kernels`].
    Fused(u32),
}

impl RegionInstance {
    pub const fn new(source: Source, order: u32, kind: InstanceKind, region: RegionNumber) -> Self {
        Self { source, order, region, kind, is_last: false }
    }

    #[inline]
    pub fn for_event<F: InTable>(row: Row<F>, order: u32, kind: InstanceKind, region: RegionNumber) -> Self {
        Self::new(Source::Event(F::any(row)), order, kind, region)
    }

    /// Breaks ties of equal start times: an instance recorded earlier is around one recorded later, and a derived
    /// instance is around its members.
    pub const fn tie(&self) -> u64 {
        match self.kind {
            // An init or finalize is around everything its thread does in the meantime.
            InstanceKind::CommInit | InstanceKind::CommFinalize => self.order as u64,
            kind => 1 << 40 | (self.order as u64) << 5 | kind as u64,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RegionNumber(u16);

impl RegionNumber {
    #[inline]
    pub fn index(self) -> usize {
        self.0.into()
    }
}

/// The regions that are shown, in no particular order.
#[derive(Debug, Default)]
pub struct Regions {
    keys: Vec<RegionKey>,
    numbers: FxHashMap<RegionKey, RegionNumber>,
    /// Whether something is shown in the region, by region number.
    is_used: Vec<bool>,
    /// Whether something is shown as a record.
    is_recorded: Vec<bool>,
    last: Option<(RegionKey, RegionNumber)>,
    /// By kind, for kinds that alone determine their region.
    of_kinds: [Option<RegionNumber>; 32],
    /// The regions of the operations that ran as one kernel, ascending.
    fused: Vec<Vec<RegionNumber>>,
    /// The kernels with several operations.
    pub kernels: Vec<FusedKernel>,
}

/// Operations that ran as one kernel.
#[derive(Clone, Copy, Debug)]
pub struct FusedKernel {
    pub operations: u32,
    /// When the first of them began.
    pub start: u64,
    /// Whether one of them had not ended.
    pub unfinished: bool,
}

impl Regions {
    /// The number of a region. Regions beyond the first 65 535 share one number.
    #[inline]
    pub fn number(&mut self, key: RegionKey) -> RegionNumber {
        match self.last {
            Some((last, number)) if last.is_surely(key) => number,
            _ => self.look_up(key),
        }
    }

    fn look_up(&mut self, key: RegionKey) -> RegionNumber {
        let next = u16::try_from(self.keys.len());
        let key = match next {
            Ok(u16::MAX) | Err(_) => RegionKey::fixed(RegionClass::Kernel, "further regions"),
            Ok(_) => key,
        };
        let next = RegionNumber(next.unwrap_or(u16::MAX));
        let number = *self.numbers.entry(key).or_insert(next);
        if number == next && self.keys.len() == next.index() {
            self.keys.push(key);
            self.is_used.push(false);
            self.is_recorded.push(false);
        }
        self.last = Some((key, number));
        number
    }

    /// The number of the region of several operations, given theirs.
    pub fn fused(&mut self, mut operations: Vec<RegionNumber>) -> RegionNumber {
        operations.sort_unstable();
        operations.dedup();
        let known = self.fused.iter().position(|fused| *fused == operations);
        let at = known.unwrap_or(self.fused.len());
        if known.is_none() {
            self.fused.push(operations);
        }
        self.number(RegionKey::new(RegionClass::Fused, RegionName::Fused(index_u32(at))))
    }

    /// The regions of the operations that a [`RegionName::Fused`] names.
    pub fn operations(&self, fused: u32) -> impl Iterator<Item = RegionKey> {
        let numbers = self.fused.get(index(fused)).into_iter().flatten();
        numbers.filter_map(|number| self.keys.get(number.index()).copied())
    }

    /// The number of the region of a kind that alone determines it.
    #[inline]
    pub fn region_of_kind(&mut self, kind: InstanceKind) -> RegionNumber {
        self.of_kinds.get(kind as usize).copied().flatten().unwrap_or_else(|| {
            let unknown = RegionKey::fixed(RegionClass::Network, "unknown");
            let number = self.number(kind.region().unwrap_or(unknown));
            if let Some(kind_region) = self.of_kinds.get_mut(kind as usize) {
                *kind_region = Some(number);
            }
            number
        })
    }

    #[inline]
    pub fn use_one(&mut self, number: RegionNumber) {
        if let Some(is_used) = self.is_used.get_mut(number.index()) {
            *is_used = true;
        }
    }

    pub fn use_as_record(&mut self, number: RegionNumber) {
        self.use_one(number);
        if let Some(is_recorded) = self.is_recorded.get_mut(number.index()) {
            *is_recorded = true;
        }
    }

    /// The regions of which something is shown as a record.
    pub fn recorded(&self) -> impl Iterator<Item = RegionNumber> {
        (0..).map(RegionNumber).zip(&self.is_recorded).filter_map(|(number, is_so)| is_so.then_some(number))
    }

    pub fn used(&self) -> impl Iterator<Item = (RegionNumber, RegionKey)> {
        let all = (0..).map(RegionNumber).zip(&self.keys).zip(&self.is_used);
        all.filter_map(|((number, &key), &is_used)| is_used.then_some((number, key)))
    }
}

/// Which part of an event an instance shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum InstanceKind {
    CommInit,
    CommFinalize,
    /// A call that NCCL turns into sends and receives.
    DerivedCall,
    Derived,
    /// An API call or launch, as the calling thread saw it.
    Call,
    /// A call outside of the program's groups, with the group that NCCL makes around it.
    LoneCall,
    /// A range or a mark of the program, or a call that only a range of NCCL's shows.
    Range,
    /// `ncclGroupStart` inside a GroupApi.
    GroupStart,
    /// `ncclGroupEnd` inside a GroupApi.
    GroupEnd,
    /// The enqueueing of a Coll, P2p or CeColl.
    Enqueue,
    Operation,
    /// Several operations that ran as one kernel.
    Fused,
    Net,
    /// A thread has transfers in flight.
    Busy,
    Channel,
    Step,
    /// A proxy thread ran out of work.
    ProxyIdle,
    ProxyActive,
    ProxySleep,
    ProxyWakeup,
    ProxyAppend,
    Phase,
    /// Work of a network plugin for a sending step.
    PluginSend,
    PluginReceive,
    Work,
}

impl InstanceKind {
    /// The region, if the kind alone determines it.
    pub const fn region(self) -> Option<RegionKey> {
        let (class, name) = match self {
            Self::CommInit => (RegionClass::Api, "ncclCommInitRank"),
            Self::CommFinalize => (RegionClass::Api, "ncclCommDestroy"),
            Self::GroupStart => (RegionClass::Api, "ncclGroupStart"),
            Self::GroupEnd => (RegionClass::Api, "ncclGroupEnd"),
            Self::ProxyIdle => (RegionClass::Proxy, "ProxyIdle"),
            Self::ProxyActive => (RegionClass::Proxy, "ProxyActive"),
            Self::ProxySleep => (RegionClass::Proxy, "ProxySleep"),
            Self::ProxyWakeup => (RegionClass::Proxy, "ProxyWakeup"),
            Self::ProxyAppend => (RegionClass::Proxy, "ProxyAppend"),
            _ => return None,
        };
        Some(RegionKey::fixed(class, name))
    }
}

/// A region by meaning; its name comes from the strings of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RegionKey {
    pub class: RegionClass,
    pub name: RegionName,
}

/// A region's name before its strings are resolved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RegionName {
    Fixed(&'static str),
    /// `nccl` and the function NCCL named, then a suffix.
    Func(Symbol, &'static str),
    Text(Symbol),
    /// A call by its full name.
    Call(Symbol),
    /// A range or a mark, by domain and name.
    Range(Symbol, Symbol),
    Derived(Pattern),
    /// Work of an unknown network plugin, by the plugin's id.
    Plugin {
        id: i64,
        is_send: bool,
    },
    /// Several operations, see [`Regions::operations`].
    Fused(u32),
    /// A C++ function, by its mangled name.
    Mangled(Symbol),
    /// A copy, by CUPTI's number of its kind.
    Copy(u8),
}

impl RegionKey {
    pub const fn new(class: RegionClass, name: RegionName) -> Self {
        Self { class, name }
    }

    /// A region whose name does not depend on the journal.
    pub const fn fixed(class: RegionClass, name: &'static str) -> Self {
        Self::new(class, RegionName::Fixed(name))
    }

    pub const fn func(class: RegionClass, func: Symbol, suffix: &'static str) -> Self {
        Self::new(class, RegionName::Func(func, suffix))
    }

    /// Pointer equality of literals, as a fast path: `false` is possible for equal texts.
    #[inline]
    pub(crate) fn is_surely(self, other: Self) -> bool {
        let is_name = match (self.name, other.name) {
            (RegionName::Fixed(name), RegionName::Fixed(other)) => std::ptr::eq(name, other),
            (RegionName::Func(func, suffix), RegionName::Func(other, other_suffix)) => {
                func == other && std::ptr::eq(suffix, other_suffix)
            }
            (name, other) => name == other,
        };
        is_name && self.class == other.class
    }
}
