//! A region instance: the unit of what is shown.

use rustc_hash::FxHashMap;

pub use crate::timeline::instance_kind::InstanceKind;
pub use crate::timeline::region::{RegionKey, RegionName};
use nccl_events::archive::RegionClass;
use tables::{EventRow, InTable, Row};

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
    /// A call of `init` or `finalize`: an index in [`tables::Tables::comm_calls`].
    CommCall(u32),
    /// An operation: an index of activities.
    Activity(u32),
    /// A call that NCCL turns into sends and receives: an index in
    /// [`crate::links::derived::DerivedCollectives::calls`].
    DerivedCall(u32),
    /// The collective of such a call: the index of its first activity.
    Derived(u32),
    /// A kernel or a copy: an index in [`crate::links::gpu_work::GpuWork::all`].
    Work(u32),
    /// A range or a mark: an index in [`tables::ranges::Ranges::all`].
    Range(u32),
}

impl RegionInstance {
    pub const fn new(source: Source, order: u32, kind: InstanceKind, region: RegionNumber) -> Self {
        Self { source, order, region, kind, is_last: false }
    }

    #[inline]
    pub fn of<F: InTable>(row: Row<F>, order: u32, kind: InstanceKind, region: RegionNumber) -> Self {
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
    last: Option<(RegionKey, RegionNumber)>,
    /// By kind, for kinds that alone determine their region.
    of_kinds: [Option<RegionNumber>; 32],
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
        }
        self.last = Some((key, number));
        number
    }

    /// The number of the region of a kind that alone determines it.
    #[inline]
    pub fn of_kind(&mut self, kind: InstanceKind) -> RegionNumber {
        self.of_kinds.get(kind as usize).copied().flatten().unwrap_or_else(|| {
            let unknown = RegionKey::fixed(RegionClass::Network, "unknown");
            let number = self.number(kind.region().unwrap_or(unknown));
            if let Some(of_kind) = self.of_kinds.get_mut(kind as usize) {
                *of_kind = Some(number);
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

    pub fn used(&self) -> impl Iterator<Item = (RegionNumber, RegionKey)> {
        let all = (0..).map(RegionNumber).zip(&self.keys).zip(&self.is_used);
        all.filter_map(|((number, &key), &is_used)| is_used.then_some((number, key)))
    }
}
