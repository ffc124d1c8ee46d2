//! What each range becomes: the program's are shown; NCCL's are calls, or repeat what the interface reports.

mod paths;
mod reported;
mod role;

pub use self::paths::{Begin, Paths, begin, begin_of_comm_call, begin_of_operation, begin_of_range};
pub use self::role::{RangeEnd, RangeRole, range_name, reduction_name};

use std::collections::BTreeSet;

use rustc_hash::FxHashSet;

use self::reported::Reported;
use journal::format::Symbol;
use journal::reader::Symbols;
use nccl_events::ids::{index, index_u32};
use nccl_events::range::{NCCL_DOMAIN, RangeField};
use tables::ranges::{RangeAt, RangeKind};
use tables::{CollApi, P2pApi, Row, Tables};

/// The most texts for numbers of categories and reduction operators. Others are left out.
const MOST_NUMBERS: usize = 4096;

#[derive(Debug, Default)]
pub struct RangeLinks {
    /// By index of the range.
    pub roles: Vec<RangeRole>,
    /// The domains with started ranges, by name.
    pub domains: Vec<Symbol>,
    pub paths: Paths,
    reported: Reported,
}

impl RangeLinks {
    /// `operations` are where operations were called; `derived` has the first send or receive of calls that NCCL turns
    /// into these, and NCCL's name of the function.
    pub fn of(
        tables: &Tables,
        symbols: &Symbols,
        operations: impl Iterator<Item = Begin>,
        derived: impl Iterator<Item = (Row<P2pApi>, &'static str)>,
    ) -> Self {
        let all = &tables.ranges.all;
        if all.is_empty() {
            return Self::default();
        }
        let nccl = symbols.all().find(|&symbol| symbols.text(symbol) == NCCL_DOMAIN);
        let is_call =
            |range: &RangeAt| matches!(range.kind, RangeKind::Pushed { .. }) && nccl == Some(range.range.domain);
        let role = |range| if is_call(range) { RangeRole::Call } else { RangeRole::User };
        let mut links = Self { roles: all.iter().map(role).collect(), ..Self::default() };
        let threads: Vec<u32> =
            (0..index_u32(tables.threads.len())).map(|thread| tables.first_index_of_thread(thread)).collect();
        links.reported = Reported::find(&mut links.roles, tables, symbols, derived, &threads);
        links.paths = Paths::of(tables, symbols, operations, &links.roles, threads);
        let started = all.iter().filter(|range| matches!(range.kind, RangeKind::Started { .. }));
        let domains: BTreeSet<(&str, Symbol)> =
            started.map(|range| (symbols.text(range.range.domain), range.range.domain)).collect();
        links.domains = domains.into_iter().map(|(_, domain)| domain).collect();
        links
    }

    /// Whether a call of init or finalize is shown as the range around it.
    pub fn shows_comm_call(&self, call: u32) -> bool {
        self.reported.replaced.contains(&call)
    }

    /// The call of init or finalize that a range shows: an index in [`Tables::comm_calls`].
    pub fn comm_call(&self, range: u32) -> Option<u32> {
        self.reported.comm_calls.get(&range).copied()
    }

    /// What is known of a range's end. Recording ends inside the call that ends the last communicator.
    pub fn end(&self, at: u32, range: &RangeAt) -> RangeEnd {
        match (range.stop, range.cut) {
            (Some(_), _) => RangeEnd::Known,
            (None, Some(_)) => RangeEnd::Bounded,
            (None, None) if self.reported.ends.contains(&at) => RangeEnd::Bounded,
            (None, None) => RangeEnd::Open,
        }
    }

    /// `ncclRedOp_t` of a call, if a range says.
    pub fn reduction(&self, call: Row<CollApi>) -> Option<u64> {
        self.reported.reductions.get(&call).copied()
    }

    fn ranges<'a>(&'a self, tables: &'a Tables) -> impl Iterator<Item = (&'a RangeAt, RangeRole)> {
        tables.ranges.all.iter().zip(self.roles.iter().copied())
    }

    /// The strings in attributes of user ranges.
    pub fn symbols(&self, tables: &Tables) -> BTreeSet<Symbol> {
        let user = self.ranges(tables).filter(|(_, role)| *role == RangeRole::User);
        user.flat_map(|(range, _)| [range.range.domain, range.range.category]).collect()
    }

    /// The texts for numbers in attributes of ranges.
    pub fn texts(&self, tables: &Tables) -> BTreeSet<String> {
        let mut texts = BTreeSet::new();
        let mut numbers: FxHashSet<(bool, u64)> = FxHashSet::default();
        for (range, role) in self.ranges(tables) {
            let field = if role == RangeRole::User { RangeField::Category } else { RangeField::Reduction };
            if let Some(number) = range.range.fields.get(field)
                && numbers.len() < MOST_NUMBERS
                && numbers.insert((role == RangeRole::User, number))
            {
                texts.insert(if role == RangeRole::User { number.to_string() } else { reduction_name(number) });
            }
        }
        texts
    }

    /// For each communicator that was split from another, the index of its context or its id, and the other's id.
    pub fn parents<'a>(&'a self, tables: &'a Tables) -> impl Iterator<Item = (Option<u32>, u64, u64)> {
        (0..).zip(self.ranges(tables)).filter_map(|(at, (range, role))| {
            let field = |field| range.range.fields.get(field).filter(|&number| number != 0);
            let parent = field(RangeField::ParentCommId).filter(|_| role == RangeRole::Call)?;
            let call = self.comm_call(at).and_then(|call| tables.comm_calls.get(index(call)));
            Some((call.and_then(|call| call.context), field(RangeField::CommId).unwrap_or(0), parent))
        })
    }
}
