//! CUPTI's functions, process-wide (V1) and per subscriber (V2).

use crate::buffer::record_len;
use crate::client::{Callbacks, Client, CompleteV1, CompleteV2, RequestV1, RequestV2};
use crate::guard::{
    Code, INVALID_KIND, INVALID_OPERATION, INVALID_PARAMETER, MAX_LIMIT_REACHED, NOT_SUPPORTED, Outcome,
    SIZE_NOT_SUFFICIENT, misuse,
};
use crate::level::{self, kind};
use crate::registry::{self, Handle, use_v1, use_v2};
use crate::{records, variables, work};
use c_double::args::{In, Out, Text};
use std::ffi::c_void;

/// An argument that the double ignores.
type Opaque = *const c_void;

/// Makes C functions, and the list of them. What stands before `fn` is checked first; after `=>` a second function of
/// the same meaning can follow, that of a subscriber.
macro_rules! functions {
    (@one $check:ident $name:ident ($($arg:ident: $ty:ty),*) $body:block) => {
        #[unsafe(no_mangle)]
        extern "C" fn $name($($arg: $ty),*) -> Code {
            let run = || -> Outcome {
                crate::guard::$check(stringify!($name))?;
                $body
            };
            run().err().unwrap_or(0)
        }
    };
    (
        single { $($check:ident fn $name:ident($($arg:ident: $ty:ty),*) $body:block)* }
        both { $($check2:ident fn $v1:ident, $v2:ident($client:ident $(, $arg2:ident: $ty2:ty)*) $body2:block)* }
    ) => {
        $(functions! { @one $check $name ($($arg: $ty),*) $body })*
        $(
            functions! { @one $check2 $v1 ($($arg2: $ty2),*) {
                let $client = &*use_v1()?;
                $body2
            }}
            functions! { @one $check2 $v2 (handle: Handle $(, $arg2: $ty2)*) {
                let $client = &*use_v2(handle)?;
                $body2
            }}
        )*
        pub(crate) fn exported() -> Vec<(&'static str, Opaque)> {
            vec![
                $((stringify!($name), $name as Opaque),)*
                $((stringify!($v1), $v1 as Opaque), (stringify!($v2), $v2 as Opaque),)*
            ]
        }
    };
}

fn set_attribute(client: &Client, attribute: u32, value: u8) -> Outcome {
    let mut state = client.state.lock();
    match attribute {
        5 => state.promised_clean = value != 0,
        9 if variables::get().level >= level::PER_THREAD_ATTRIBUTE => {
            state.per_thread = value != 0;
        }
        13 => misuse("hardware events are switched on, which corrupted the heap of other tools"),
        0..=8 => {}
        _ => return Err(INVALID_PARAMETER),
    }
    Ok(())
}

fn switch_kind(client: &Client, kind: u32, on: bool) -> Outcome {
    if kind == 0 || kind >= kind::COUNT {
        return Err(INVALID_KIND);
    }
    if kind == kind::KERNEL {
        misuse("kind 3 (KERNEL) runs the kernels of the job one after the other");
    }
    let state = &mut *client.state.lock();
    if on {
        state.kinds.insert(kind);
        state.functions.retain(|(function_kind, _), _| *function_kind != kind);
    } else {
        state.kinds.remove(&kind);
    }
    Ok(())
}

/// More than any release has.
const FUNCTIONS: u32 = 900;

/// Seen on GPUs: before CUDA 13.3 a function that is enabled alone, where a context exists, records nothing.
fn switch_function(client: &Client, kind: u32, cbid: u32, on: u8) -> Outcome {
    if cbid == 0 || cbid >= FUNCTIONS {
        return Err(INVALID_PARAMETER);
    }
    let state = &mut *client.state.lock();
    if state.kinds.contains(&kind) || variables::get().level >= level::V2_COMPLETE {
        state.functions.insert((kind, cbid), on != 0);
    }
    Ok(())
}

fn next_record(start: In<u8>, valid: usize, record: Out<usize>) -> Outcome {
    let before = record.get().ok_or(INVALID_PARAMETER)?;
    let len_at = |offset: usize| {
        let mut kind = [0; 4];
        for (index, byte) in kind.iter_mut().enumerate() {
            *byte = start.element(offset + index)?;
        }
        record_len(u32::from_le_bytes(kind))
    };
    let offset = if before == 0 {
        0
    } else {
        let offset = before.checked_sub(start.address()).filter(|offset| *offset < valid);
        let offset = offset.ok_or(INVALID_PARAMETER)?;
        offset + len_at(offset).ok_or(INVALID_KIND)?
    };
    if offset >= valid {
        return Err(MAX_LIMIT_REACHED);
    }
    if offset + 4 > valid || len_at(offset).is_none_or(|len| offset + len > valid) {
        return Err(INVALID_KIND);
    }
    record.set(start.address() + offset);
    Ok(())
}

/// `CUpti_SubscriberParams`, in words of 64 bits: its length, the name, where the holder's name goes and the room
/// there; since 13.2, whether others are allowed.
fn subscribe_v2(handle: Out<Handle>, params: In<usize>) -> Outcome {
    const OLD_NAME_MIN: usize = 64;
    let share = match params.get() {
        Some(32) => false,
        Some(40) if variables::get().level >= level::V2_BEGUN => {
            params.cast::<u8>().element(32).is_some_and(|share| share != 0)
        }
        _ => return Err(INVALID_PARAMETER),
    };
    let name = params.cast::<Text>().element(1).ok_or(INVALID_PARAMETER)?;
    let old_name = params.cast::<Out<u8>>().element(2).ok_or(INVALID_PARAMETER)?;
    let room = params.element(3).unwrap_or(0);
    if name.get().is_empty() || handle.is_null() {
        return Err(INVALID_PARAMETER);
    }
    if !old_name.is_null() && room < OLD_NAME_MIN {
        return Err(SIZE_NOT_SUFFICIENT);
    }
    let subscribed = registry::subscribe_v2(&name.get(), share);
    handle.set(subscribed.map_err(|(code, holder)| {
        let holder = holder.unwrap_or_default();
        let bytes = holder.bytes().take(room.saturating_sub(1)).chain([0]);
        old_name.set_all(&bytes.collect::<Vec<u8>>());
        code
    })?);
    Ok(())
}

functions! {
    single {
    ask fn cuptiGetVersion(version: Out<u32>) {
        version.set(variables::get().level);
        Ok(())
    }
    outside fn cuptiSubscribe(handle: Out<Handle>, _callback: Opaque, _data: Opaque) {
        handle.set(registry::subscribe_v1()?);
        Ok(())
    }
    outside fn cuptiSubscribe_v2(handle: Out<Handle>, _callback: Opaque, _data: Opaque, params: In<usize>) {
        subscribe_v2(handle, params)
    }
    outside fn cuptiUnsubscribe(handle: Handle) { registry::unsubscribe(handle) }
    outside fn cuptiActivityRegisterCallbacks(request: Option<RequestV1>, complete: Option<CompleteV1>) {
        let (Some(request), Some(complete)) = (request, complete) else { return Err(INVALID_PARAMETER) };
        use_v1()?.state.lock().callbacks = Some(Callbacks::V1(request, complete));
        Ok(())
    }
    outside fn cuptiActivityRegisterCallbacks_v2(own: Handle, request: Option<RequestV2>,
                                                 complete: Option<CompleteV2>) {
        let (Some(request), Some(complete)) = (request, complete) else { return Err(INVALID_PARAMETER) };
        use_v2(own)?.state.lock().callbacks = Some(Callbacks::V2(request, complete));
        Ok(())
    }
    outside fn cuptiActivityEnable(kind: u32) { switch_kind(&*use_v1()?, kind, true) }
    outside fn cuptiActivityEnable_v2(own: Handle, kind: u32, config: Opaque) {
        // Records with fields of one's choice are not played.
        if config.is_null() { switch_kind(&*use_v2(own)?, kind, true) } else { Err(NOT_SUPPORTED) }
    }
    outside fn cuptiActivityDisable(kind: u32) { switch_kind(&*use_v1()?, kind, false) }
    outside fn cuptiActivityDisable_v2(own: Handle, kind: u32, _config: Opaque) {
        switch_kind(&*use_v2(own)?, kind, false)
    }
    outside fn cuptiActivityFlushAll(flag: u32) {
        let clients = registry::clients();
        if clients.iter().all(|client| client.state.lock().callbacks.is_none()) {
            return Err(INVALID_OPERATION);
        }
        work::flush(&clients, flag & 1 != 0);
        Ok(())
    }
    enter fn cuptiIsTracingSessionRunning(running: Out<u8>) {
        running.set(u8::from(registry::is_running()));
        Ok(())
    }
    outside fn cuptiFinalize() {
        misuse("cuptiFinalize: no other tool of the process gets anything after that")
    }
    }
    both {
    outside fn cuptiActivitySetAttribute, cuptiActivitySetAttribute_v2(
        client, attribute: u32, len: Out<usize>, value: Out<u8>
    ) {
        let value = value.get().filter(|_| !len.is_null()).ok_or(INVALID_PARAMETER)?;
        set_attribute(client, attribute, value)
    }
    enter fn cuptiActivityEnableDriverApi, cuptiActivityEnableDriverApi_v2(client, cbid: u32, on: u8) {
        switch_function(client, kind::DRIVER, cbid, on)
    }
    enter fn cuptiActivityEnableRuntimeApi, cuptiActivityEnableRuntimeApi_v2(client, cbid: u32, on: u8) {
        switch_function(client, kind::RUNTIME, cbid, on)
    }
    enter fn cuptiActivityPushExternalCorrelationId, cuptiActivityPushExternalCorrelationId_v2(
        client, kind: u32, id: u64
    ) { client.push_id(kind, id) }
    enter fn cuptiActivityPopExternalCorrelationId, cuptiActivityPopExternalCorrelationId_v2(
        client, kind: u32, last: Out<u64>
    ) {
        last.set(client.pop_id(kind)?);
        Ok(())
    }
    ask fn cuptiActivityGetNextRecord, cuptiActivityGetNextRecord_v2(
        _client, buffer: In<u8>, valid: usize, record: Out<usize>
    ) { next_record(buffer, valid, record) }
    enter fn cuptiActivityGetNumDroppedRecords, cuptiActivityGetNumDroppedRecords_v2(
        client, _context: Opaque, _stream: u32, dropped: Out<usize>
    ) {
        dropped.set(std::mem::take(&mut client.state.lock().dropped));
        Ok(())
    }
    ask fn cuptiGetTimestamp, cuptiGetTimestamp_v2(_client, timestamp: Out<u64>) {
        timestamp.set(records::now());
        Ok(())
    }
    }
}
