//! Memory: allocation, copies, what a pointer is to.

use super::call::{Handle, Outcome, code, device, driver, give, handle, runtime, stream_of};
use crate::allocations::{self, Kind};
use crate::cupti::{self, Activity, cbid};
use crate::device_memory::Addr;
use crate::stream::{Occasion, Op};
use c_double::args::Out;
use std::ffi::{c_int, c_uint};
use std::sync::Arc;

fn addr(pointer: Handle) -> Addr {
    // SAFETY: the argument of a copy or fill: the caller keeps the memory until the stream has done it, which is
    // the rule for a real device too.
    unsafe { Addr::new(pointer.expose_provenance()) }
}

fn copy(to: Handle, from: Handle, len: usize) -> Op {
    let (to, from) = (addr(to), addr(from));
    Arc::new(move |_| from.copy_to(to, len))
}

/// `CUpti_ActivityMemcpyKind` of a `cudaMemcpyKind`. The default kind is left to the addresses, which are all the
/// device's where NCCL uses it.
fn cupti_kind(kind: c_int) -> u32 {
    match kind {
        0 => 9,
        1 => 1,
        2 => 2,
        _ => 8,
    }
}

fn fill(at: Handle, value: c_int, len: usize) -> Op {
    let at = addr(at);
    Arc::new(move |_| at.set(value as u8, len))
}

fn allocate(out: Out<Handle>, len: usize, kind: Kind) -> Outcome {
    let address = allocations::alloc(len, kind, device()).ok_or(code::OUT_OF_MEMORY)?;
    give(out, std::ptr::with_exposed_provenance_mut(address))
}

fn release(pointer: Handle) -> Outcome {
    allocations::free(pointer.addr()).then_some(()).ok_or(code::INVALID)
}

fn on_stream(stream: Handle, op: Op) -> Outcome {
    stream_of(stream)?.submit(op, true, 0);
    Ok(())
}

/// Any handle will do: there is one pool, and it is not looked at.
fn give_pool(pool: Out<Handle>) -> Outcome {
    give(pool, handle(0x100))
}

/// `cudaPointerAttributes`
#[repr(C)]
#[derive(Clone, Copy)]
struct PointerAttributes {
    kind: c_int,
    device: c_int,
    device_pointer: Handle,
    host_pointer: Handle,
}

runtime! {
    fn cudaMalloc(out: Out<Handle>, len: usize) { allocate(out, len, Kind::Device) }
    // A real device would also wait for its streams here. NCCL frees from helper threads while other operations
    // wait for those threads, and the host program has waited for what uses the memory already.
    fn cudaFree(pointer: Handle) { release(pointer) }
    fn cudaMallocAsync(out: Out<Handle>, len: usize, _stream: Handle) { allocate(out, len, Kind::Device) }
    fn cudaMallocFromPoolAsync(out: Out<Handle>, len: usize, _pool: Handle, _stream: Handle) {
        allocate(out, len, Kind::Device)
    }
    fn cudaFreeAsync(pointer: Handle, stream: Handle) {
        let address = pointer.addr();
        stream_of(stream)?.push_short(Box::new(move || {
            allocations::free(address);
        }));
        Ok(())
    }
    fn cudaMemPoolCreate(pool: Out<Handle>, _properties: Handle) { give_pool(pool) }
    fn cudaMemPoolDestroy(_pool: Handle) { Ok(()) }
    fn cudaMemPoolSetAttribute(_pool: Handle, _attribute: c_int, _value: Handle) { Ok(()) }
    fn cudaMemPoolTrimTo(_pool: Handle, _len: usize) { Ok(()) }
    fn cudaDeviceGetDefaultMemPool(pool: Out<Handle>, _device: c_int) { give_pool(pool) }
    fn cudaMallocHost(out: Out<Handle>, len: usize) { allocate(out, len, Kind::Host) }
    fn cudaHostAlloc(out: Out<Handle>, len: usize, _flags: c_uint) { allocate(out, len, Kind::Host) }
    fn cudaFreeHost(pointer: Handle) { release(pointer) }
    fn cudaHostRegister(_pointer: Handle, _len: usize, _flags: c_uint) { Ok(()) }
    fn cudaHostUnregister(_pointer: Handle) { Ok(()) }
    fn cudaHostGetDevicePointer(out: Out<Handle>, host: Handle, _flags: c_uint) { give(out, host) }
    fn cudaPointerGetAttributes(out: Out<PointerAttributes>, pointer: Handle) {
        let block = allocations::find(pointer.addr());
        let where_known = |is_known: bool| if is_known { pointer } else { handle(0) };
        out.set(PointerAttributes {
            kind: block.map_or(0, |block| block.kind as c_int),
            device: block.map_or(-2, |block| block.device),
            device_pointer: where_known(block.is_some()),
            host_pointer: where_known(block.is_some_and(|block| block.kind == Kind::Host)),
        });
        Ok(())
    }
    fn cudaMemGetInfo(free: Out<usize>, total: Out<usize>) {
        free.set(15 << 30);
        give(total, 16 << 30)
    }
    fn cudaMemset(at: Handle, value: c_int, len: usize) {
        fill(at, value, len)(&Occasion::default());
        Ok(())
    }
    fn cudaMemsetAsync(at: Handle, value: c_int, len: usize, stream: Handle) {
        on_stream(stream, fill(at, value, len))
    }
    fn cudaMemcpy(to: Handle, from: Handle, len: usize, _kind: c_int) {
        copy(to, from, len)(&Occasion::default());
        Ok(())
    }
    fn cudaMemcpyAsync(to: Handle, from: Handle, len: usize, kind: c_int, stream: Handle) {
        let copy = copy(to, from, len);
        let observed: Op = Arc::new(move |occasion| {
            let _running = cupti::begin(occasion, &Activity::Copy(cupti_kind(kind), len));
            copy(occasion);
        });
        stream_of(stream)?.submit(observed, true, cupti::api_call(cupti::RUNTIME, cbid::MEMCPY_ASYNC));
        Ok(())
    }
    fn cudaMemcpyPeerAsync(to: Handle, _to_device: c_int, from: Handle, _from_device: c_int, len: usize,
                           stream: Handle) {
        on_stream(stream, copy(to, from, len))
    }
}

driver! {
    fn cuMemGetAddressRange(base: Out<usize>, size: Out<usize>, address: usize) {
        let block = allocations::find(address).ok_or(code::INVALID)?;
        base.set(block.base);
        give(size, block.size)
    }
    fn cuPointerGetAttribute(_out: Handle, _attribute: c_int, _address: usize) { Err(code::NOT_SUPPORTED) }
    fn cuMemGetAllocationGranularity(out: Out<usize>, _properties: Handle, _flags: c_int) { give(out, 2 << 20) }
    fn cuMemGetHandleForAddressRange() { Err(code::NOT_SUPPORTED) }
    fn cuMemRetainAllocationHandle(_handle: Handle, _address: Handle) { Err(code::INVALID) }
}
