//! Collectives, sends and receives: fields common to all operations.

use std::ops::Deref;

use crate::{CeColl, Coll, EventRow, Head, P2p, Row, Tables};
use journal::format::Symbol;
use nccl_events::Kind;

/// A Coll, P2p or CeColl. A CeColl has no children that show when it ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OperationRow {
    Coll(Row<Coll>),
    P2p(Row<P2p>),
    CeColl(Row<CeColl>),
}

impl OperationRow {
    #[inline]
    pub const fn of(event: EventRow) -> Option<Self> {
        match event {
            EventRow::Coll(row) => Some(Self::Coll(row)),
            EventRow::P2p(row) => Some(Self::P2p(row)),
            EventRow::CeColl(row) => Some(Self::CeColl(row)),
            EventRow::Group(_) | EventRow::GroupApi(_) | EventRow::CollApi(_) | EventRow::P2pApi(_) => None,
            EventRow::KernelLaunch(_) | EventRow::KernelCh(_) | EventRow::KernelPhase(_) => None,
            EventRow::ProxyOp(_) | EventRow::ProxyStep(_) | EventRow::ProxyCtrl(_) | EventRow::NetPlugin(_) => None,
            EventRow::CeSync(_) | EventRow::CeBatch(_) | EventRow::Unknown(_) => None,
        }
    }

    pub const fn kind(self) -> Kind {
        match self {
            Self::Coll(_) => Kind::Coll,
            Self::P2p(_) => Kind::P2p,
            Self::CeColl(_) => Kind::CeColl,
        }
    }

    pub const fn is_collective(self) -> bool {
        !matches!(self, Self::P2p(_))
    }

    pub const fn is_by_copy_engines(self) -> bool {
        matches!(self, Self::CeColl(_))
    }
}

#[derive(Clone, Copy, Debug)]
pub struct Operation<'a> {
    head: &'a Head,
    pub func: Symbol,
    pub count: u64,
    pub datatype: Symbol,
    /// The launch plan (one kernel) of a Coll or P2p: the handle of its Group; 0 if there is none.
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

    pub fn is_captured(&self, call: EventRow) -> bool {
        match call {
            EventRow::CollApi(row) => self[row].fields.graph_captured,
            EventRow::P2pApi(row) => self[row].fields.graph_captured,
            _ => false,
        }
    }
}
