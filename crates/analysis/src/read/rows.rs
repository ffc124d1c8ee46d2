//! The tables of an archive, and the texts that their rows have numbers of. Times are in ns from the start of the
//! trace.

use std::collections::BTreeMap;

use crate::read::columns::{ConstantColumn, DeltaColumn, NarrowColumn, columns};
use nccl_events::archive::Timing;
use nccl_events::ids::index_u32;
use otf2::{LocationRef, RegionRef};
use parking_lot::RwLock;
use topology::{Algorithm, Protocol};

/// No row of another table, or no number.
pub const NONE: u32 = u32::MAX;
pub const NO_SEQUENCE: u64 = u64::MAX;

columns! {
    Operations of Operation {
        /// Row of [`crate::read::Members`]: communicator and rank.
        member: u32,
        function: RegionRef,
        /// How its interval was measured; `None` in archives of other writers.
        timing: Option<Timing> => ConstantColumn<Option<Timing>>,
        is_unfinished: bool => ConstantColumn<bool>,
        /// Whether the archive gives it a bandwidth: it had its kernel to itself, and its time was measured.
        has_bandwidth: bool => ConstantColumn<bool>,
        /// The algorithm and protocol, if NCCL reported them by names that this version knows.
        by: Option<(Algorithm, Protocol)> => ConstantColumn<Option<(Algorithm, Protocol)>>,
        /// Rank of the root, or of the other end of a send or receive; [`NONE`] if there is no such rank.
        partner: u32 => ConstantColumn<u32>,
        bytes: u64 => NarrowColumn,
        start_ns: u64,
        stop_ns: u64,
        event: u64 => DeltaColumn,
        parent: u64 => DeltaColumn,
        /// NCCL's number per function and communicator; [`NO_SEQUENCE`] for messages and collectives made of them.
        sequence: u64 => NarrowColumn,
        /// Number of the replay of a captured call; 0 if not replayed.
        replay: u32 => ConstantColumn<u32>,
        /// The id of its kernel launch; 0 if unknown.
        launch: u64 => DeltaColumn,
        /// The ranges of the program that its call was in: an index in [`crate::read::Tables::paths`], or [`NONE`].
        path: u32 => ConstantColumn<u32>,
    }
}

columns! {
    Calls of Call {
        location: LocationRef,
        function: RegionRef,
        start_ns: u64,
        stop_ns: u64,
        bytes: u64,
        event: u64,
        /// The name of the communicator that the call makes or ends: an index in [`crate::read::Tables::paths`]; else
        /// [`NONE`].
        comm: u32,
        /// The caller's rank in that communicator; [`NONE`] if unknown.
        rank: u32,
        is_unfinished: bool,
        /// The program's ranges around the call, as in [`Operation::path`].
        path: u32,
    }
}

columns! {
    /// A range of the program on a thread.
    Ranges of Range {
        location: LocationRef,
        region: RegionRef,
        start_ns: u64,
        stop_ns: u64,
        /// The number in its name; [`NO_SEQUENCE`] if it has none.
        number: u64,
        /// The range and those around it, as in [`Operation::path`].
        path: u32,
        is_unfinished: bool,
    }
}

columns! {
    Launches of Launch {
        location: LocationRef,
        start_ns: u64,
        stop_ns: u64,
        event: u64,
        parent: u64,
    }
}

columns! {
    Transfers of Transfer {
        /// Row of [`crate::read::Members`]; [`NONE`] if the rank is unknown.
        member: u32,
        /// Row of [`Operations`]; [`NONE`] if the operation is not in the archive.
        operation: u32,
        peer: u32,
        channel: u32,
        is_send: bool,
        event: u64 => DeltaColumn,
    }
}

/// A step of a network transfer. Its phases follow each other from `start_ns`; a phase that was not reported is 0.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    pub transfer: u32,
    pub start_ns: u64,
    /// Send: waiting for the GPU's data. Receive: waiting for data from the network.
    pub first_ns: u64,
    /// Send: waiting for buffer space at the receiver. Receive: flushing.
    pub second_ns: u64,
    /// Send: on the network. Receive: waiting for the GPU to take the data.
    pub third_ns: u64,
    /// Size in bytes; 0 if NCCL does not report it.
    pub bytes: u64,
}

columns! {
    Kernels of Kernel {
        location: LocationRef,
        region: RegionRef,
        is_nccl: bool,
        start_ns: u64,
        stop_ns: u64,
        /// The id of its operation, launch plan or launch; 0 if it has no parent.
        parent: u64,
    }
}

impl Operation {
    pub const fn duration_ns(&self) -> u64 {
        self.stop_ns.saturating_sub(self.start_ns)
    }

    pub fn is_measured(&self) -> bool {
        self.timing.is_some_and(Timing::is_measured)
    }

    /// Whether it was measured to its end.
    pub fn is_known(&self) -> bool {
        self.is_measured() && !self.is_unfinished
    }

    pub const fn size_class(&self) -> u32 {
        u64::BITS - self.bytes.leading_zeros()
    }
}

impl Step {
    pub const fn stop_ns(&self) -> u64 {
        self.sent_ns().saturating_add(self.third_ns)
    }

    /// For sends: when the step was handed to the network.
    pub const fn sent_ns(&self) -> u64 {
        self.start_ns.saturating_add(self.first_ns).saturating_add(self.second_ns)
    }
}

/// Texts of `nvtx.ranges` and names of communicators, numbered together while several threads read.
#[derive(Debug, Default)]
pub(crate) struct Paths(RwLock<Numbers>);

#[derive(Clone, Debug, Default)]
struct Numbers {
    texts: Vec<String>,
    numbers: BTreeMap<String, u32>,
}

impl Clone for Paths {
    fn clone(&self) -> Self {
        Self(RwLock::new(self.0.read().clone()))
    }
}

/// Numbers the texts of a location. Remembers the last text, because most texts repeat the one before.
pub(super) struct Reader<'a> {
    paths: &'a Paths,
    last: (String, u32),
}

impl Paths {
    pub(super) fn reader(&self) -> Reader<'_> {
        Reader { paths: self, last: (String::new(), u32::MAX) }
    }

    /// The texts by number. Numbers depend on the order of reading.
    pub(crate) fn texts(&self) -> Vec<String> {
        self.0.read().texts.clone()
    }
}

impl Reader<'_> {
    pub(super) fn number(&mut self, text: &str) -> u32 {
        if self.last.0 != text {
            self.last = (text.to_owned(), self.find(text));
        }
        self.last.1
    }

    fn find(&self, text: &str) -> u32 {
        if let Some(number) = self.paths.0.read().numbers.get(text) {
            return *number;
        }
        let mut known = self.paths.0.write();
        let Numbers { texts, numbers } = &mut *known;
        *numbers.entry(text.to_owned()).or_insert_with(|| {
            texts.push(text.to_owned());
            index_u32(texts.len() - 1)
        })
    }
}
