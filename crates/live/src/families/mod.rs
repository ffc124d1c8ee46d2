//! A snapshot as families of metrics: by our names, or by those that existing dashboards ask for.

mod inspector;
mod otel;
mod ours;
mod rows;

use crate::metric::Family;
use crate::snapshot::Snapshot;

use otel::Windows;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Names {
    /// Ours: all that is known, in base units.
    #[default]
    Ours,
    Inspector,
    Otel,
}

/// Makes families of snapshots, which must come in the order of their time.
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
