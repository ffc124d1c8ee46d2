//! The buffers that came back, read as the headers of each release lay them out.

use crate::rig::{Cupti, DONE, call};
use std::ffi::c_char;

/// A record, as far as it is looked at.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Record {
    External {
        kind: u32,
        id: u64,
        correlation: u32,
    },
    Api {
        kind: u32,
        cbid: u32,
        start: u64,
        end: u64,
        correlation: u32,
        thread: u32,
    },
    Kernel(Kernel),
    Copy {
        kind: u8,
        bytes: u64,
        start: u64,
        end: u64,
        stream: u32,
        correlation: u32,
    },
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Kernel {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) device: u32,
    pub(crate) context: u32,
    pub(crate) stream: u32,
    pub(crate) correlation: u32,
    pub(crate) name: String,
    pub(crate) graph: u32,
    pub(crate) node: u64,
}

/// A pointer to bytes of a buffer that is the test's again.
fn bytes<const N: usize>(at: usize, offset: usize) -> [u8; N] {
    let place = std::ptr::with_exposed_provenance::<[u8; N]>(at + offset);
    // SAFETY: inside a record that `cuptiActivityGetNextRecord` found whole.
    unsafe { place.read_unaligned() }
}

fn u32_at(at: usize, offset: usize) -> u32 {
    u32::from_le_bytes(bytes(at, offset))
}

fn u64_at(at: usize, offset: usize) -> u64 {
    u64::from_le_bytes(bytes(at, offset))
}

fn name_at(at: usize, offset: usize) -> String {
    let address = usize::from_le_bytes(bytes(at, offset));
    if address == 0 {
        return String::new();
    }
    let name = std::ptr::with_exposed_provenance::<c_char>(address);
    // SAFETY: a name of CUPTI's, which keeps it.
    let name = unsafe { std::ffi::CStr::from_ptr(name) };
    name.to_string_lossy().into_owned()
}

fn decode(at: usize) -> Record {
    match u32_at(at, 0) {
        39 => Record::External {
            kind: u32_at(at, 4),
            id: u64_at(at, 8),
            correlation: u32_at(at, 16),
        },
        kind @ (4 | 5) => Record::Api {
            kind,
            cbid: u32_at(at, 4),
            start: u64_at(at, 8),
            end: u64_at(at, 16),
            thread: u32_at(at, 28),
            correlation: u32_at(at, 32),
        },
        10 => Record::Kernel(Kernel {
            start: u64_at(at, 16),
            end: u64_at(at, 24),
            device: u32_at(at, 40),
            context: u32_at(at, 44),
            stream: u32_at(at, 48),
            correlation: u32_at(at, 92),
            name: name_at(at, 104),
            graph: u32_at(at, 156),
            node: u64_at(at, 144),
        }),
        1 => Record::Copy {
            kind: bytes::<1>(at, 4)[0],
            bytes: u64_at(at, 8),
            start: u64_at(at, 16),
            end: u64_at(at, 24),
            stream: u32_at(at, 40),
            correlation: u32_at(at, 44),
        },
        other => panic!("a record of kind {other}"),
    }
}

/// Who walks a buffer: everybody, or a subscriber.
#[derive(Clone, Copy)]
pub(crate) enum By {
    V1,
    V2(usize),
}

/// The records of the buffers that came back so far, and the last code of each walk.
pub(crate) fn records(cupti: &Cupti, by: By) -> (Vec<Record>, Vec<i32>) {
    let (mut all, mut ends) = (Vec::new(), Vec::new());
    for done in DONE.lock().drain(..) {
        let start = std::ptr::with_exposed_provenance_mut::<u8>(done.start);
        let mut record = 0_usize;
        let at = &raw mut record;
        let code = loop {
            let code = match by {
                By::V1 => call!(cupti, "cuptiActivityGetNextRecord",
                                (*mut u8, usize, *mut usize) -> i32, start, done.valid, at),
                By::V2(own) => call!(cupti, "cuptiActivityGetNextRecord_v2",
                                     (usize, *mut u8, usize, *mut usize) -> i32, own, start, done.valid, at),
            };
            if code != 0 {
                break code;
            }
            // SAFETY: the local above, which the call has written.
            all.push(decode(unsafe { at.read() }));
        };
        ends.push(code);
    }
    (all, ends)
}

pub(crate) fn kernels(records: &[Record]) -> Vec<&Kernel> {
    let mut kernels = Vec::new();
    for record in records {
        if let Record::Kernel(kernel) = record {
            kernels.push(kernel);
        }
    }
    kernels
}

/// How a kernel's external id of kind 5 is found: by the correlation of both.
pub(crate) fn id_of(records: &[Record], kernel: &Kernel) -> Option<u64> {
    records.iter().find_map(|record| match record {
        Record::External {
            kind: 5,
            id,
            correlation,
        } if *correlation == kernel.correlation => Some(*id),
        _ => None,
    })
}

/// Every kernel of `storm` is there, joined to its own id or to none.
pub(crate) fn check_storm(records: &[Record], threads: u64, each: u64) {
    let kernels = kernels(records);
    assert_eq!(kernels.len() as u64, threads * each * 2);
    for kernel in kernels {
        match kernel.name.strip_prefix("_Z5ncclDevKernel_") {
            Some(id) => assert_eq!(id_of(records, kernel), id.parse().ok()),
            None => assert_eq!(id_of(records, kernel), None),
        }
        assert!(
            kernel.start > 0 && kernel.end == kernel.start + 20_000,
            "{kernel:?}"
        );
    }
}
