//! Events, for writers and from readers; the checksums of definition files; and the bytes around the records of OTF2's
//! files.

use std::collections::HashMap;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::{fmt, io};

use crate::error::{Error, Result};
use crate::vocabulary::{
    AttributeRef, AttributeValue, CollectiveOp, CommRef, MeasurementMode, MetricRef, MetricValue, ParameterRef,
    RegionRef, RmaWinRef, StringRef,
};
use regular_files::{FNV_SEED, MOST_MANIFEST_BYTES, checksum, fnv};

/// A member's data about a collective operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names of OTF2's arguments")]
pub struct Collective {
    pub op: CollectiveOp,
    pub comm: CommRef,
    /// A rank of the communicator; `None` for operations without a root.
    pub root: Option<u32>,
    /// Bytes sent by this member, as `bytes_received` are the bytes it received.
    pub bytes_sent: u64,
    pub bytes_received: u64,
}

/// One end of a message. Sends and receives are matched by communicator and tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names of OTF2's arguments")]
pub struct Message {
    /// The rank of the other end in `comm`.
    pub peer: u32,
    pub comm: CommRef,
    pub tag: u32,
    pub bytes: u64,
}

/// A put into, or a get from, the memory of another process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names of OTF2's arguments")]
pub struct RmaAccess {
    pub win: RmaWinRef,
    /// The remote member's rank in the window's communicator.
    pub remote: u32,
    pub bytes: u64,
    /// The id that the completion has, too.
    pub matching: u64,
}

/// An event of a location.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "fields that say it themselves")]
pub struct Event {
    /// Time in ticks of the archive's clock, corrected by the location's clock offsets.
    pub time: u64,
    pub kind: EventKind,
    pub attributes: Vec<(AttributeRef, AttributeValue)>,
}

/// The kinds of events by OTF2's names. All parts of an operation have the same `request` or `matching`.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
#[expect(missing_docs, reason = "kinds and fields have the names of OTF2's events")]
pub enum EventKind {
    Enter(RegionRef),
    Leave(RegionRef),
    MpiCollectiveBegin,
    MpiCollectiveEnd(Collective),
    NonBlockingCollectiveRequest {
        request: u64,
    },
    NonBlockingCollectiveComplete {
        collective: Collective,
        request: u64,
    },
    MpiSend(Message),
    MpiRecv(Message),
    MpiIsend {
        message: Message,
        request: u64,
    },
    MpiIsendComplete {
        request: u64,
    },
    MpiIrecvRequest {
        request: u64,
    },
    MpiIrecv {
        message: Message,
        request: u64,
    },
    RmaPut(RmaAccess),
    RmaGet(RmaAccess),
    RmaOpCompleteBlocking {
        win: RmaWinRef,
        matching: u64,
    },
    RmaOpCompleteNonBlocking {
        win: RmaWinRef,
        matching: u64,
    },
    /// A sample of a metric class or instance: one value per member of the class.
    Metric {
        metric: MetricRef,
        values: Vec<MetricValue>,
    },
    ParameterString {
        parameter: ParameterRef,
        value: StringRef,
    },
    ParameterInt {
        parameter: ParameterRef,
        value: i64,
    },
    ParameterUnsignedInt {
        parameter: ParameterRef,
        value: u64,
    },
    MeasurementOnOff(MeasurementMode),
    /// An event of another kind, by OTF2's name.
    Other(&'static str),
}

// A wrong byte in a name or a mapping table changes values, and OTF2 does not detect it: hence the checksums.

/// The anchor's property with the checksums of the global and of the local definitions, in hexadecimal.
pub(crate) const PROPERTY: &str = "NCCL_OTF2::DEFINITIONS_CHECKSUM";

/// Checksums of an archive's definition files.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Checksums {
    global: u64,
    local: u64,
}

impl fmt::Display for Checksums {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:016x} {:016x}", self.global, self.local)
    }
}

impl Checksums {
    /// Reads the definition files of an archive with these locations, in ascending order. Does not limit the size of
    /// the global definitions, because they were read or written before.
    pub(crate) fn read(anchor: &Path, locations: impl Iterator<Item = u64>) -> Result<Self> {
        let global = anchor.with_extension("def");
        let global = checksum(&global, u64::MAX).map_err(|source| read(&global, source))?;
        // The locations of a process share one file through hard links.
        let mut known: HashMap<(u64, u64), u64> = HashMap::new();
        let mut local = FNV_SEED;
        for location in locations {
            let path = file(anchor, location);
            let hash = match path.symlink_metadata() {
                Ok(data) => match known.get(&(data.dev(), data.ino())) {
                    Some(hash) => *hash,
                    None => {
                        let hash = checksum(&path, MOST_MANIFEST_BYTES).map_err(|source| read(&path, source))?;
                        known.insert((data.dev(), data.ino()), hash);
                        hash
                    }
                },
                Err(error) if error.kind() == ErrorKind::NotFound => 0,
                Err(source) => return Err(read(&path, source)),
            };
            local = fnv(fnv(local, &location.to_le_bytes()), &hash.to_le_bytes());
        }
        Ok(Self { global, local })
    }

    /// Compares the files' checksums with those stated in the archive.
    pub(crate) fn compare(&self, anchor: &Path, written: &str) -> Result<()> {
        let (global, local) = written.split_once(' ').unwrap_or((written, ""));
        let path = if global != format!("{:016x}", self.global) {
            anchor.with_extension("def")
        } else if local != format!("{:016x}", self.local) {
            let events = anchor.with_extension("");
            if !events.is_dir() {
                let reason = "is missing: the events of the archive were in it".to_owned();
                return Err(Error::Damaged { path: events, reason });
            }
            events.join("*.def")
        } else {
            return Ok(());
        };
        let reason = "does not have what was written: its checksum differs".to_owned();
        Err(Error::Damaged { path, reason })
    }
}

/// Checks that either all or none of these locations have local definitions: without them, references are misread and
/// the clock is not corrected. Programs that number definitions alike in all processes write no local definitions.
pub(crate) fn check_presence(anchor: &Path, locations: impl Iterator<Item = u64> + Clone) -> Result<()> {
    let is_missing = |location: &u64| {
        let data = file(anchor, *location).symlink_metadata();
        data.is_err_and(|error| error.kind() == ErrorKind::NotFound)
    };
    match locations.clone().find(is_missing) {
        Some(missing) if !locations.clone().all(|location| is_missing(&location)) => {
            let reason = "is missing, and other locations have theirs".to_owned();
            Err(Error::Damaged { path: file(anchor, missing), reason })
        }
        _ => Ok(()),
    }
}

fn file(anchor: &Path, location: u64) -> PathBuf {
    anchor.with_extension("").join(format!("{location}.def"))
}

fn read(path: &Path, source: io::Error) -> Error {
    crate::error::io("read the definitions", path, source)
}

/// Chunk header: `03`, byte order, numbers of the first and last event.
pub(crate) const HEADER_BYTES: usize = 18;
pub(crate) const HEADER_MARK: u8 = 3;
pub(crate) const LITTLE_ENDIAN: u8 = 0x42;
pub(crate) const BIG_ENDIAN: u8 = 0x23;
/// The byte order of files that are written here.
pub(crate) const BYTE_ORDER: u8 = if cfg!(target_endian = "little") { LITTLE_ENDIAN } else { BIG_ENDIAN };
/// The end of a chunk that others follow.
pub(crate) const END_OF_CHUNK: u8 = 0;
/// The end of the last chunk: end of file, end of buffer.
pub(crate) const END: [u8; 2] = [2, 1];
