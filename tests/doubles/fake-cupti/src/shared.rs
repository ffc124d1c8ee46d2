//! The functions that both families have.

use crate::c_args::{In, Out};
use crate::client::Client;
use crate::counters::FLUSHES;
use crate::guard::{harmless, misuse, not_in_callback};
use crate::knobs::knobs;
use crate::level::{Level, kind};
use crate::registry::{self, Handle};
use crate::result::{
    self, Code, INVALID_KIND, INVALID_OPERATION, INVALID_PARAMETER, INVALID_STREAM,
    MAX_LIMIT_REACHED, NOT_COMPATIBLE, NOT_SUPPORTED, Outcome, code,
};
use crate::{buffer, clock, control, delivery, gpu};
use std::ffi::{c_char, c_void};

/// A function of the tool that is never called: only addresses are kept.
pub(crate) type Opaque = *const c_void;

/// Makes C functions: what stands before `=>` is checked first.
macro_rules! functions {
    ($($(#[doc = $doc:literal])* $check:ident fn $name:ident($($arg:ident: $ty:ty),* $(,)?) $body:block)*) => {
        $(
            $(#[doc = $doc])*
            #[unsafe(no_mangle)]
            extern "C" fn $name($($arg: $ty),*) -> $crate::result::Code {
                let run = || -> $crate::result::Outcome {
                    $crate::guard::$check(stringify!($name))?;
                    $body
                };
                $crate::result::code(run())
            }
        )*
    };
}
pub(crate) use functions;

/// The attributes that a release has.
fn has_attribute(attribute: u32) -> bool {
    match attribute {
        0..=8 => true,
        9 => knobs().level >= Level::PER_THREAD_ATTRIBUTE,
        22 => knobs().level >= Level::TIMESTAMP_ATTRIBUTE,
        10..=21 => knobs().level >= Level::V2_BEGUN,
        _ => false,
    }
}

/// `cuptiActivitySetAttribute`, of either family
pub(crate) fn set_attribute(
    client: &Client,
    attribute: u32,
    len: Out<usize>,
    value: Out<u8>,
) -> Outcome {
    const MULTIPLE_SUBSCRIBER_STATE: u32 = 12;
    if len.is_null()
        || value.is_null()
        || !has_attribute(attribute)
        || attribute == MULTIPLE_SUBSCRIBER_STATE
    {
        return Err(INVALID_PARAMETER);
    }
    let on = value.get().is_some_and(|value| value != 0);
    match attribute {
        5 => client.promise_clean(on),
        9 => client.set_per_thread(on),
        13 => misuse("hardware events are switched on, which corrupted the heap of other tools"),
        _ => {}
    }
    Ok(())
}

/// `cuptiActivityGetAttribute`, of either family
pub(crate) fn get_attribute(
    client: &Client,
    attribute: u32,
    len: Out<usize>,
    value: Out<u8>,
) -> Outcome {
    if len.get().is_none_or(|len| len == 0) || value.is_null() || !has_attribute(attribute) {
        return Err(INVALID_PARAMETER);
    }
    value.set(match attribute {
        9 => u8::from(client.per_thread()),
        12 => registry::sharing(),
        _ => 0,
    });
    Ok(())
}

/// `cuptiActivityEnable` and `cuptiActivityDisable`, of either family
pub(crate) fn switch_kind(client: &Client, kind: u32, on: bool) -> Outcome {
    if kind == 0 || kind >= kind::COUNT {
        return Err(INVALID_KIND);
    }
    if on && kind == kind::KERNEL {
        misuse("kind 3 (KERNEL) runs the kernels of the job one after the other");
    }
    client.switch_kind(kind, on);
    Ok(())
}

/// `cuptiActivityGetNextRecord`, of either family
pub(crate) fn next_record(start: In<u8>, valid: usize, record: Out<usize>) -> Outcome {
    let Some(before) = record.get() else {
        return Err(INVALID_PARAMETER);
    };
    let kind_at = |offset: usize| -> Option<u32> {
        let mut bytes = [0; 4];
        for (index, byte) in bytes.iter_mut().enumerate() {
            *byte = start.element(offset + index)?;
        }
        Some(u32::from_le_bytes(bytes))
    };
    let len_at = |offset: usize| kind_at(offset).and_then(buffer::record_len);
    let base = start.address();
    let offset = if before == 0 {
        0
    } else {
        let offset = before
            .checked_sub(base)
            .filter(|offset| *offset < valid)
            .ok_or(INVALID_PARAMETER)?;
        offset + len_at(offset).ok_or(INVALID_KIND)?
    };
    if offset >= valid {
        return Err(MAX_LIMIT_REACHED);
    }
    if offset + 4 > valid || len_at(offset).is_none_or(|len| offset + len > valid) {
        return Err(INVALID_KIND);
    }
    record.set(base + offset);
    Ok(())
}

/// `cuptiGetResultString`
#[unsafe(no_mangle)]
extern "C" fn cuptiGetResultString(result: Code, text: Out<*const c_char>) -> Code {
    let run = || -> Outcome {
        harmless("cuptiGetResultString")?;
        let name = result::name(result).ok_or(INVALID_PARAMETER)?;
        text.set(name.as_ptr());
        Ok(())
    };
    code(run())
}

functions! {
    harmless fn cuptiGetVersion(version: Out<u32>) {
        version.set(knobs().level.0);
        Ok(())
    }
    harmless fn cuptiGetErrorMessage(_result: Code, text: Out<*const c_char>) {
        text.set(c"".as_ptr());
        Ok(())
    }
    harmless fn cuptiGetLastError() { Ok(()) }
    enter fn cuptiUnsubscribe(handle: Handle) {
        not_in_callback("cuptiUnsubscribe");
        registry::unsubscribe(handle)
    }
    enter fn cuptiEnableCallback(_on: u32, handle: Handle, _domain: u32, _cbid: u32) {
        if registry::is_subscriber(handle) { Ok(()) } else { Err(INVALID_PARAMETER) }
    }
    enter fn cuptiEnableDomain(_on: u32, handle: Handle, _domain: u32) {
        if registry::is_subscriber(handle) { Ok(()) } else { Err(INVALID_PARAMETER) }
    }
    enter fn cuptiEnableAllDomains(_on: u32, handle: Handle) {
        if registry::is_subscriber(handle) { Ok(()) } else { Err(INVALID_PARAMETER) }
    }
    enter fn cuptiActivityFlushAll(flag: u32) {
        not_in_callback("cuptiActivityFlushAll");
        FLUSHES.add(1);
        let clients = registry::clients();
        if clients.iter().all(|client| client.callbacks().is_none()) {
            return Err(INVALID_OPERATION);
        }
        let forced = flag & 1 != 0;
        let busy = gpu::settle(forced);
        let mut buffers = Vec::new();
        for client in clients {
            let taken = client.take_buffers(forced, &busy);
            buffers.extend(taken.into_iter().map(|buffer| (client.clone(), buffer)));
        }
        delivery::flush(buffers);
        Ok(())
    }
    enter fn cuptiActivityFlushPeriod(_ms: u32) {
        not_in_callback("cuptiActivityFlushPeriod");
        // Forbidden where several tools share the library. Nothing is flushed by itself here.
        if registry::sharing() == 1 { Err(NOT_COMPATIBLE) } else { Ok(()) }
    }
    enter fn cuptiActivityEnableHWTrace(_on: u8) { Err(NOT_SUPPORTED) }
    enter fn cuptiActivityEnableLatencyTimestamps(_on: u8) { Ok(()) }
    enter fn cuptiActivityEnableLaunchAttributes(_on: u8) { Ok(()) }
    harmless fn cuptiSetThreadIdType(_kind: u32) { Ok(()) }
    harmless fn cuptiGetThreadIdType(kind: Out<u32>) {
        kind.set(0);
        Ok(())
    }
    enter fn cuptiGetStreamIdEx(_context: Opaque, stream: usize, _per_thread: u8, id: Out<u32>) {
        id.set(control::stream_id(stream).ok_or(INVALID_STREAM)?);
        Ok(())
    }
    enter fn cuptiGetStreamId(_context: Opaque, stream: usize, id: Out<u32>) {
        id.set(control::stream_id(stream).ok_or(INVALID_STREAM)?);
        Ok(())
    }
    enter fn cuptiGetGraphExecId(_graph: Opaque, _id: Out<u32>) { Err(NOT_SUPPORTED) }
    enter fn cuptiActivityGetStructSize(kind: u32, _version: u32, len: Out<usize>) {
        len.set(buffer::record_len(kind).ok_or(INVALID_KIND)?);
        Ok(())
    }
    enter fn cuptiIsTracingSessionRunning(running: Out<u8>) {
        running.set(u8::from(registry::is_running()));
        Ok(())
    }
    enter fn cuptiDeviceGetTimestamp(_context: Opaque, timestamp: Out<u64>) {
        timestamp.set(clock::now());
        Ok(())
    }
    enter fn cuptiFinalize() {
        misuse("cuptiFinalize: no other tool of the process gets anything after that");
        Ok(())
    }
}
