//! Names of kernels, copied from CUPTI's strings.

use std::collections::HashMap;
use std::ffi::{CStr, CString};
use std::ptr;

use super::decode::NameAddress;
use nccl_events::Name;

/// Substrings of the mangled names of NCCL's kernels, in all releases with a profiler interface.
const NCCL_KERNELS: [&[u8]; 3] = [b"ncclDevKernel_", b"ncclSymkDevKernel_", b"oneRankReduce"];
/// The limit on stored names, because a job can generate any number of kernels.
const MOST: usize = 1 << 14;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NameId(usize);

#[derive(Debug)]
struct Known {
    text: CString,
    is_nccl: bool,
}

#[derive(Debug, Default)]
pub(super) struct Names {
    all: Vec<Known>,
    ids: HashMap<CString, NameId>,
}

impl Names {
    /// No name: CUPTI gave none, or too many names are stored.
    pub(super) const NONE: NameId = NameId(usize::MAX);

    /// Copies the name of a record.
    ///
    /// # Safety
    /// The address is 0, or points to a string in CUPTI's memory that belongs to a record whose buffer is being read.
    pub(super) unsafe fn of_record(&mut self, address: NameAddress) -> NameId {
        #[expect(clippy::cast_possible_truncation, reason = "an address: pointers have 64 bits where CUDA is")]
        let pointer = ptr::with_exposed_provenance::<std::ffi::c_char>(address.0 as usize);
        if pointer.is_null() {
            return Self::NONE;
        }
        // SAFETY: not NULL, so a NUL-terminated string (contract).
        let text = unsafe { CStr::from_ptr(pointer) };
        self.keep(text)
    }

    fn keep(&mut self, text: &CStr) -> NameId {
        if let Some(id) = self.ids.get(text) {
            return *id;
        }
        if self.all.len() >= MOST {
            return Self::NONE;
        }
        let id = NameId(self.all.len());
        let is_nccl = is_nccl(text.to_bytes());
        self.all.push(Known { text: text.to_owned(), is_nccl });
        self.ids.insert(text.to_owned(), id);
        id
    }

    pub(super) fn is_nccl(&self, id: NameId) -> bool {
        self.all.get(id.0).is_some_and(|known| known.is_nccl)
    }

    pub(super) fn get(&self, id: NameId) -> Name<'_> {
        let known = self.all.get(id.0);
        known.map_or(Name::NONE, |known| Name::from_cstr(&known.text))
    }
}

fn is_nccl(name: &[u8]) -> bool {
    NCCL_KERNELS.iter().any(|part| name.windows(part.len()).any(|window| window == *part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_of_nccl_are_known_by_their_names() {
        for name in [
            "_Z40ncclDevKernel_AllReduce_Sum_f32_RING_LL24ncclDevKernelArgsStorageILm4096EE",
            "ncclSymkDevKernel_AllGather_LL",
            "_Z13oneRankReduceI7FuncSumIfEEvPvS2_mmb",
        ] {
            assert!(is_nccl(name.as_bytes()), "{name}");
        }
        for name in ["", "ncclDev", "_Z6kernelv", "ampere_sgemm_128x64_nn"] {
            assert!(!is_nccl(name.as_bytes()), "{name}");
        }
    }

    #[test]
    fn names_are_kept_once_and_their_number_is_limited() {
        let mut names = Names::default();
        let first = names.keep(c"ncclDevKernel_X");
        assert!(names.is_nccl(first));
        assert_eq!(names.get(first).bytes(), b"ncclDevKernel_X");
        // SAFETY: the address is 0.
        let none = unsafe { names.of_record(NameAddress(0)) };
        assert!(names.get(none).is_none());
        for number in 0..MOST + 5 {
            names.keep(&CString::new(format!("k{number}")).unwrap());
        }
        assert_eq!(names.all.len(), MOST);
        assert_eq!(names.keep(c"ncclDevKernel_X"), first);
    }
}
