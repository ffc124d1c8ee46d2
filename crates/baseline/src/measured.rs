//! A measured bandwidth.

use analysis::Shape;
use nccl_events::collective::Collective;

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Measured {
    pub(crate) collective: Collective,
    pub(crate) place: Place,
    /// Of the larger buffer of a rank.
    pub(crate) bytes: u64,
    pub(crate) busbw: f64,
    /// Without the time in which ranks waited for each other; `None` if that is not known.
    pub(crate) transfer: Option<f64>,
}

/// Where the ranks of a communicator were.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Place {
    Shape(Shape),
    /// The number of ranks on each host, descending.
    Hosts(Vec<u32>),
}

impl Place {
    pub(crate) fn fits(&self, shape: &Shape) -> bool {
        match self {
            Self::Shape(own) => own.fits(shape),
            Self::Hosts(hosts) => shape.hosts().as_ref() == Some(hosts),
        }
    }

    pub(crate) fn hosts(&self) -> Option<Vec<u32>> {
        match self {
            Self::Shape(shape) => shape.hosts(),
            Self::Hosts(hosts) => Some(hosts.clone()),
        }
    }
}
