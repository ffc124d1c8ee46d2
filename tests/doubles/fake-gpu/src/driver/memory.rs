//! What is known of memory.

use super::{Handle, NOT_SUPPORTED};
use crate::allocations;
use crate::cuda::{INVALID, OK};
use c_double::args::Out;
use std::ffi::c_int;

super::driver! {
    fn cuMemGetAddressRange(base: Out<usize>, size: Out<usize>, address: usize) -> c_int {
        let Some(block) = allocations::find(address) else { return INVALID };
        base.set(block.base);
        size.set(block.size);
        OK
    }
    fn cuPointerGetAttribute(_out: Handle, _attribute: c_int, _address: usize) -> c_int { NOT_SUPPORTED }
    fn cuMemGetAllocationGranularity(out: Out<usize>, _properties: Handle, _flags: c_int) -> c_int {
        out.set(2 << 20);
        OK
    }
    fn cuMemGetHandleForAddressRange() -> c_int { NOT_SUPPORTED }
    fn cuMemRetainAllocationHandle(_handle: Handle, _address: Handle) -> c_int { INVALID }
}
