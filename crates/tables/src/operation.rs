//! Collectives, sends and receives: what all operations have.

use std::ops::Deref;

use crate::{CeColl, Coll, EventRow, Head, P2p, Row, Tables};
use journal::format::record::Symbol;
use nccl_events::Kind;

/// A Coll, P2p or CeColl (which has no children that tell when it ran).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OperationRow {
    /// A collective.
    Coll(Row<Coll>),
    /// A send or receive.
    P2p(Row<P2p>),
    /// A collective by copy engines.
    CeColl(Row<CeColl>),
}

impl OperationRow {
    /// The event as an operation, if it is one.
    #[must_use]
    #[inline]
    pub const fn of(event: EventRow) -> Option<Self> {
        match event {
            EventRow::Coll(row) => Some(Self::Coll(row)),
            EventRow::P2p(row) => Some(Self::P2p(row)),
            EventRow::CeColl(row) => Some(Self::CeColl(row)),
            _ => None,
        }
    }

    /// Its kind of event.
    #[must_use]
    pub const fn kind(self) -> Kind {
        match self {
            Self::Coll(_) => Kind::Coll,
            Self::P2p(_) => Kind::P2p,
            Self::CeColl(_) => Kind::CeColl,
        }
    }

    /// Whether NCCL calls it a collective.
    #[must_use]
    pub const fn is_collective(self) -> bool {
        !matches!(self, Self::P2p(_))
    }

    /// Whether copy engines do it.
    #[must_use]
    pub const fn is_by_copy_engines(self) -> bool {
        matches!(self, Self::CeColl(_))
    }
}

/// What all operations have.
#[derive(Clone, Copy, Debug)]
pub struct Operation<'a> {
    head: &'a Head,
    /// The function.
    pub func: Symbol,
    /// Elements.
    pub count: u64,
    /// Their type.
    pub datatype: Symbol,
    /// The launch plan (one kernel) of a Coll or P2p: the handle of its Group; 0 for none.
    pub plan: u64,
}

impl Deref for Operation<'_> {
    type Target = Head;

    #[inline]
    fn deref(&self) -> &Head {
        self.head
    }
}

impl Tables {
    /// What a row has that all operations have.
    #[must_use]
    #[inline]
    pub fn operation(&self, row: OperationRow) -> Operation<'_> {
        macro_rules! operation {
            ($event:expr, $plan:expr) => {{
                let (event, plan) = ($event, $plan);
                let fields = &event.fields;
                Operation {
                    head: event.head(),
                    func: fields.func,
                    count: fields.count,
                    datatype: fields.datatype,
                    plan,
                }
            }};
        }
        match row {
            OperationRow::Coll(row) => operation!(&self[row], self[row].fields.parent_group),
            OperationRow::P2p(row) => operation!(&self[row], self[row].fields.parent_group),
            OperationRow::CeColl(row) => operation!(&self[row], 0),
        }
    }

    /// Whether a call was captured into a graph.
    #[must_use]
    pub fn is_captured(&self, call: EventRow) -> bool {
        match call {
            EventRow::CollApi(row) => self[row].fields.graph_captured,
            EventRow::P2pApi(row) => self[row].fields.graph_captured,
            _ => false,
        }
    }
}
