//! Memory: allocation, copies, what a pointer is to.

use super::{Handle, INVALID, NO_MEMORY, OK, api, device, fail, handle, stream_of};
use crate::allocations::{self, Kind};
use crate::cupti::{self, What, cbid};
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

/// A copy that CUPTI hears of.
fn observed_copy(to: Handle, from: Handle, len: usize, kind: c_int) -> Op {
    let copy = copy(to, from, len);
    Arc::new(move |occasion| {
        let running = cupti::begin(occasion, &What::Copy(cupti_kind(kind), len));
        copy(occasion);
        if let Some(running) = running {
            running.end();
        }
    })
}

fn fill(at: Handle, value: c_int, len: usize) -> Op {
    let at = addr(at);
    Arc::new(move |_| at.set(value as u8, len))
}

fn allocate(out: &Out<Handle>, len: usize, kind: Kind) -> c_int {
    let Some(address) = allocations::alloc(len, kind, device()) else {
        return fail(NO_MEMORY);
    };
    out.set(std::ptr::with_exposed_provenance_mut(address));
    OK
}

fn release(pointer: Handle) -> c_int {
    if allocations::free(pointer.addr()) {
        OK
    } else {
        fail(INVALID)
    }
}

fn on_stream(stream: Handle, op: Op) -> c_int {
    let Some(stream) = stream_of(stream) else {
        return fail(super::BAD_HANDLE);
    };
    stream.submit(op, true);
    OK
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

/// Any handle will do: there is one pool, and it is not looked at.
const POOL: usize = 0x100;

api! {
    fn cudaMalloc(out: Out<Handle>, len: usize) -> c_int { allocate(&out, len, Kind::Device) }
    // A real device would also wait for its streams here. NCCL frees from helper threads while other operations
    // wait for those threads, and the host program has waited for what uses the memory already.
    fn cudaFree(pointer: Handle) -> c_int { release(pointer) }
    fn cudaMallocAsync(out: Out<Handle>, len: usize, _stream: Handle) -> c_int {
        allocate(&out, len, Kind::Device)
    }
    fn cudaMallocFromPoolAsync(out: Out<Handle>, len: usize, _pool: Handle, _stream: Handle) -> c_int {
        allocate(&out, len, Kind::Device)
    }
    fn cudaFreeAsync(pointer: Handle, stream: Handle) -> c_int {
        let Some(stream) = stream_of(stream) else { return fail(super::BAD_HANDLE) };
        let address = pointer.addr();
        stream.push_short(Box::new(move || {
            allocations::free(address);
        }));
        OK
    }
    fn cudaMemPoolCreate(pool: Out<Handle>, _properties: Handle) -> c_int {
        pool.set(handle(POOL));
        OK
    }
    fn cudaMemPoolDestroy(_pool: Handle) -> c_int { OK }
    fn cudaMemPoolSetAttribute(_pool: Handle, _attribute: c_int, _value: Handle) -> c_int { OK }
    fn cudaMemPoolTrimTo(_pool: Handle, _len: usize) -> c_int { OK }
    fn cudaDeviceGetDefaultMemPool(pool: Out<Handle>, _device: c_int) -> c_int {
        pool.set(handle(POOL));
        OK
    }
    fn cudaMallocHost(out: Out<Handle>, len: usize) -> c_int { allocate(&out, len, Kind::Host) }
    fn cudaHostAlloc(out: Out<Handle>, len: usize, _flags: c_uint) -> c_int { allocate(&out, len, Kind::Host) }
    fn cudaFreeHost(pointer: Handle) -> c_int { release(pointer) }
    fn cudaHostRegister(_pointer: Handle, _len: usize, _flags: c_uint) -> c_int { OK }
    fn cudaHostUnregister(_pointer: Handle) -> c_int { OK }
    fn cudaHostGetDevicePointer(out: Out<Handle>, host: Handle, _flags: c_uint) -> c_int {
        out.set(host);
        OK
    }
    fn cudaPointerGetAttributes(out: Out<PointerAttributes>, pointer: Handle) -> c_int {
        let block = allocations::find(pointer.addr());
        let none = handle(0);
        out.set(PointerAttributes {
            kind: block.map_or(0, |b| b.kind as c_int),
            device: block.map_or(-2, |b| b.device),
            device_pointer: if block.is_some() { pointer } else { none },
            host_pointer: if block.is_some_and(|b| b.kind == Kind::Host) { pointer } else { none },
        });
        OK
    }
    fn cudaMemGetInfo(free: Out<usize>, total: Out<usize>) -> c_int {
        free.set(15 << 30);
        total.set(16 << 30);
        OK
    }
    fn cudaMemset(at: Handle, value: c_int, len: usize) -> c_int {
        fill(at, value, len)(&Occasion::default());
        OK
    }
    fn cudaMemsetAsync(at: Handle, value: c_int, len: usize, stream: Handle) -> c_int {
        on_stream(stream, fill(at, value, len))
    }
    fn cudaMemcpy(to: Handle, from: Handle, len: usize, _kind: c_int) -> c_int {
        copy(to, from, len)(&Occasion::default());
        OK
    }
    fn cudaMemcpyAsync(to: Handle, from: Handle, len: usize, kind: c_int, stream: Handle) -> c_int {
        let Some(stream) = stream_of(stream) else { return fail(super::BAD_HANDLE) };
        let op = observed_copy(to, from, len, kind);
        stream.submit_from(op, true, cupti::api_call(cupti::RUNTIME, cbid::MEMCPY_ASYNC));
        OK
    }
    fn cudaMemcpyPeerAsync(to: Handle, _to_device: c_int, from: Handle, _from_device: c_int, len: usize,
                           stream: Handle) -> c_int {
        on_stream(stream, copy(to, from, len))
    }
}
