//! Memory that NCCL shares with its kernels: communicator and channel structures, connections with their buffers
//! and counters, works, and the users' data.
//!
//! The invariant: an [`Addr`] is NULL or comes, directly or through pointers read from there, from the argument
//! block of a kernel launch, or from the arguments of a memory operation on a stream. NCCL (and the user of the
//! stream) keeps that memory mapped and laid out as its release has it until the launch is done, which is the
//! rule for a real device too; [`crate::layout`] knows the layouts. So accesses at the offsets given there are in
//! bounds for as long as a kernel runs, and no [`Addr`] is kept beyond that. NCCL's threads access the same
//! memory meanwhile: counters are accessed atomically, data only while the counters give it to this side.

use std::ptr::{with_exposed_provenance, with_exposed_provenance_mut};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Numbers that any bytes are a value of.
pub(crate) trait Plain: Copy {
    fn from_head(bytes: &[u8]) -> Self;
}

macro_rules! plain {
    ($($t:ty),*) => {
        $(impl Plain for $t {
            fn from_head(bytes: &[u8]) -> $t {
                let mut own = [0; size_of::<$t>()];
                own.copy_from_slice(&bytes[..size_of::<$t>()]);
                <$t>::from_le_bytes(own)
            }
        })*
    };
}
plain!(u8, i8, u16, i16, u32, i32, u64, i64);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Addr(usize);

impl Addr {
    pub(crate) const NULL: Addr = Addr(0);

    /// Takes an address from the arguments of a launch or of a memory operation.
    ///
    /// # Safety
    /// The caller vouches for the invariant of this module.
    pub(crate) unsafe fn new(address: usize) -> Addr {
        Addr(address)
    }

    pub(crate) fn is_null(self) -> bool {
        self.0 == 0
    }

    /// So many bytes further on, or back.
    pub(crate) fn at(self, bytes: isize) -> Addr {
        Addr(self.0.wrapping_add_signed(bytes))
    }

    pub(crate) fn field(self, offset: usize) -> Addr {
        Addr(self.0.wrapping_add(offset))
    }

    pub(crate) fn read<T: Plain>(self) -> T {
        let pointer = with_exposed_provenance::<T>(self.0);
        // SAFETY: mapped and of this layout by the invariant of this module; any bytes are a `T`.
        unsafe { pointer.read_unaligned() }
    }

    pub(crate) fn write<T: Plain>(self, value: T) {
        let pointer = with_exposed_provenance_mut::<T>(self.0);
        // SAFETY: mapped and of this layout by the invariant of this module.
        unsafe { pointer.write_unaligned(value) }
    }

    pub(crate) fn follow(self) -> Addr {
        Addr(self.read::<u64>() as usize)
    }

    fn counter(&self) -> &AtomicU64 {
        // SAFETY: NCCL aligns its counters; mapped, by the invariant of this module, for as long as `self` is
        // used; the other side accesses counters atomically too.
        unsafe { AtomicU64::from_ptr(with_exposed_provenance_mut(self.0)) }
    }

    fn small_counter(&self) -> &AtomicU32 {
        // SAFETY: as for `counter`.
        unsafe { AtomicU32::from_ptr(with_exposed_provenance_mut(self.0)) }
    }

    /// Reads a counter; what the other side wrote before it advanced it can be seen afterwards.
    pub(crate) fn load(self) -> u64 {
        self.counter().load(Ordering::Acquire)
    }

    /// Advances a counter. A thread that reads the new value sees what was written before.
    pub(crate) fn store(self, value: u64) {
        self.counter().store(value, Ordering::Release);
    }

    pub(crate) fn load_u32(self) -> u32 {
        self.small_counter().load(Ordering::Relaxed)
    }

    pub(crate) fn store_u32(self, value: u32) {
        self.small_counter().store(value, Ordering::Release);
    }

    pub(crate) fn bytes(self, len: usize) -> Vec<u8> {
        let mut own = vec![0; len];
        self.copy_out(&mut own);
        own
    }

    pub(crate) fn copy_out(self, to: &mut [u8]) {
        let from = with_exposed_provenance::<u8>(self.0);
        // SAFETY: the counters say that this side may read that much here; `to` is memory of this library.
        unsafe { std::ptr::copy_nonoverlapping(from, to.as_mut_ptr(), to.len()) }
    }

    pub(crate) fn copy_in(self, from: &[u8]) {
        let to = with_exposed_provenance_mut::<u8>(self.0);
        // SAFETY: the counters say that this side may write that much here; `from` is memory of this library.
        unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), to, from.len()) }
    }

    /// Copies to another place, which may overlap.
    pub(crate) fn copy_to(self, to: Addr, len: usize) {
        let source = with_exposed_provenance::<u8>(self.0);
        let target = with_exposed_provenance_mut::<u8>(to.0);
        // SAFETY: both places have `len` bytes: that is what the operation was called with.
        unsafe { std::ptr::copy(source, target, len) }
    }

    pub(crate) fn set(self, value: u8, len: usize) {
        let target = with_exposed_provenance_mut::<u8>(self.0);
        // SAFETY: there are `len` bytes: that is what the operation was called with.
        unsafe { std::ptr::write_bytes(target, value, len) }
    }
}

pub(crate) struct Record(Vec<u8>);

impl Record {
    pub(crate) fn from_bytes(bytes: Vec<u8>) -> Record {
        Record(bytes)
    }

    pub(crate) fn get<T: Plain>(&self, offset: usize) -> T {
        T::from_head(&self.0[offset..])
    }

    pub(crate) fn addr(&self, offset: usize) -> Addr {
        let address = self.get::<u64>(offset) as usize;
        // SAFETY: the record is a copy from NCCL's memory, and the offset that of a pointer.
        unsafe { Addr::new(address) }
    }

    pub(crate) fn slice(&self, offset: usize, len: usize) -> &[u8] {
        &self.0[offset..offset + len]
    }
}
