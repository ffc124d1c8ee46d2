//! A snapshot as families of metrics, under our names or under those that existing dashboards query.

mod inspector;
mod otel;
mod ours;
mod rows;

use crate::metric::Family;
use crate::snapshot::Snapshot;

use otel::Windows;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Names {
    /// Our names: all known values, in base units.
    #[default]
    Ours,
    Inspector,
    Otel,
}

/// Makes families from snapshots, which must come in time order.
#[derive(Debug, Default)]
pub struct Families {
    names: Names,
    windows: Windows,
}

impl Families {
    pub fn new(names: Names) -> Self {
        Self { names, windows: Windows::default() }
    }

    pub fn of(&mut self, snapshot: &Snapshot) -> Vec<Family> {
        match self.names {
            Names::Ours => ours::families(snapshot),
            Names::Inspector => inspector::families(snapshot),
            Names::Otel => otel::families(snapshot, &mut self.windows),
        }
    }
}
