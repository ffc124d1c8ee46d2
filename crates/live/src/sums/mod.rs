//! Sums over all processes, since each of them began.

mod communicators;
mod network;
mod operations;
mod report;
mod series;
mod skew;

use job::communicators::Twice;
use journal::format::Symbol;
use journal::reader::Symbols;
use nccl_events::ids::index;

use self::communicators::ranks;
pub(crate) use self::communicators::{Communicators, Member};
use self::network::Network;
pub(crate) use self::network::{Connection, EndedStep, Places};
pub(crate) use self::operations::EndedOperation;
use self::operations::Operations;
use self::series::Budget;
use self::skew::Skews;
use crate::options::Options;

#[derive(Debug)]
pub(crate) struct Sums {
    pub(crate) communicators: Communicators,
    names: Symbols,
    other: Symbol,
    operations: Operations,
    network: Network,
    skews: Skews,
    budget: Budget,
    bounds: &'static [f64],
}

impl Sums {
    pub(crate) fn new(options: &Options) -> Self {
        let mut names = Symbols::default();
        let other = names.intern("other");
        Self {
            communicators: Communicators::new(Twice::OwnIdentity),
            names,
            other,
            operations: Operations::default(),
            network: Network::default(),
            skews: Skews::default(),
            budget: Budget::new(options.max_series),
            bounds: options.duration_bounds,
        }
    }

    pub(crate) fn name(&mut self, text: &str) -> Symbol {
        self.names.intern(text)
    }

    pub(crate) fn operation(&mut self, ended: &EndedOperation) {
        let Some(communicator) = self.communicators.all.get(index(ended.member.communicator)) else {
            return;
        };
        self.operations.add(ended, ranks(communicator), (self.bounds, &mut self.budget, self.other));
        self.skews.add(ended, communicator, (self.bounds, &mut self.budget));
    }

    pub(crate) fn places(&mut self, connection: Connection) -> Places {
        self.network.places(connection, self.bounds, &mut self.budget)
    }

    pub(crate) fn step(&mut self, places: Places, step: &EndedStep) {
        self.network.add(places, step);
    }
}
