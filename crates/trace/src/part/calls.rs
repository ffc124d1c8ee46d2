//! The file `collectives` of a part: the collective calls of every rank in order. The manifest has their number and a
//! hash; the file is read only if hashes differ.
//!
//! The comparison covers what must be equal on all ranks: function, number of elements, datatype, root. NCCL reports no
//! reduction operator. Functions that only move bytes are compared by bytes, as NCCL itself treats them.

pub(super) mod of_ranks;

use std::fmt;
use std::path::Path;

use regular_files::{FNV_SEED, MOST_MANIFEST_BYTES, fnv};
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::part::files::write_json;
use nccl_events::Span;
use nccl_events::ids::index;

pub(crate) const CALLS: &str = "collectives";

const FORMAT: u32 = 1;

/// The properties of a collective that all ranks must agree on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Call {
    pub(crate) func: String,
    /// Elements; bytes where the function only moves them.
    pub(crate) count: u64,
    /// Type of the elements; empty for bytes.
    pub(crate) datatype: String,
    /// The root; -1 if there is none.
    pub(crate) root: i32,
}

impl Call {
    /// A hash of the content, the same in every process.
    pub(crate) fn hash(&self) -> u64 {
        let words = [&self.func, &self.datatype].into_iter();
        let hashed = words.fold(FNV_SEED, |seed, word| fnv(fnv(seed, word.as_bytes()), &[0xff]));
        fnv(fnv(hashed, &self.count.to_le_bytes()), &self.root.to_le_bytes())
    }
}

impl fmt::Display for Call {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let datatype = match self.datatype.as_str() {
            "" => "bytes",
            datatype => datatype,
        };
        write!(out, "{} of {} {datatype}", self.func, self.count)?;
        if self.root >= 0 {
            write!(out, " root {}", self.root)?;
        }
        Ok(())
    }
}

/// One rank's collectives: indices into [`CallLists::calls`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RankCalls {
    /// An index into the manifest's communicators.
    pub(crate) comm: u32,
    pub(crate) rank: u32,
    /// The calls; `None` if calls were not recorded.
    pub(crate) called: Option<Vec<u32>>,
    /// What NCCL enqueued; `None` if that does not show what was called.
    pub(crate) enqueued: Option<Vec<u32>>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CallLists {
    format: u32,
    /// Distinct calls.
    pub(crate) calls: Vec<Call>,
    pub(crate) ranks: Vec<RankCalls>,
}

impl CallLists {
    pub(crate) fn new(calls: Vec<Call>, ranks: Vec<RankCalls>) -> Self {
        Self { format: FORMAT, calls, ranks }
    }

    pub(crate) fn write(&self, path: &Path) -> Result<(), Error> {
        write_json(path, self)
    }

    /// Reads a part's file; `None` if there is none that this version can parse.
    pub(crate) fn read(part: &Path) -> Option<Self> {
        let bytes = regular_files::read(&part.join(CALLS), MOST_MANIFEST_BYTES).ok()?;
        let lists: Self = serde_json::from_slice(&bytes).ok()?;
        (lists.format == FORMAT).then_some(lists)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RankDigest {
    /// An index into the manifest's communicators.
    pub comm: u32,
    pub rank: u32,
    /// Calls of the API; `None` if they were not recorded.
    pub called: Option<Digest>,
    /// What NCCL enqueued; `None` if CUDA graphs were replayed, because it then does not show the calls.
    pub enqueued: Option<Digest>,
    /// The step ranges that the digests cover; `None` if they cover everything, or the ranges are unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step_ranges: Option<StepRanges>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Digest {
    pub count: u64,
    pub hash: u64,
}

impl Default for Digest {
    fn default() -> Self {
        Self { count: 0, hash: FNV_SEED }
    }
}

impl Digest {
    pub(crate) fn of(hashes: &[u64], order: &[u32]) -> Self {
        let hash = |call: &u32| hashes.get(index(*call)).copied().unwrap_or(0);
        order.iter().fold(Self::default(), |digest, call| digest.and(hash(call)))
    }

    pub(crate) fn and(self, call: u64) -> Self {
        Self { count: self.count + 1, hash: fnv(self.hash, &call.to_le_bytes()) }
    }
}

/// The step ranges that a rank reached or will reach next: first and last collective, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct StepRanges {
    pub spans: Vec<(u32, u32)>,
    /// Whether the program names its steps: between the ranges a rank may have called more than others.
    #[serde(default, skip_serializing_if = "is_false")]
    pub is_named: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's interface")]
const fn is_false(flag: &bool) -> bool {
    !*flag
}

impl StepRanges {
    pub(crate) fn of(spans: &[Span], is_named: bool) -> Self {
        Self { spans: spans.iter().map(|span| (span.first, span.last)).collect(), is_named }
    }

    pub(crate) fn spans(&self) -> impl Iterator<Item = Span> {
        self.spans.iter().map(|&(first, last)| Span { first, last })
    }
}

impl fmt::Display for StepRanges {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let spans: Vec<String> = self.spans().map(|span| span.to_string()).collect();
        formatter.write_str(&spans.join(","))
    }
}
