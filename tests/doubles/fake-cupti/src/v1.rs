//! V1: the functions that act for the process as a whole.

use crate::c_args::{In, Out};
use crate::client::{Callbacks, CompleteV1, RequestV1};
use crate::clock;
use crate::guard::not_in_callback;
use crate::level::kind;
use crate::registry::{self, Handle, use_v1};
use crate::result::INVALID_PARAMETER;
use crate::shared::{Opaque, functions, get_attribute, next_record, set_attribute, switch_kind};

functions! {
    enter fn cuptiSubscribe(handle: Out<Handle>, _callback: Opaque, _data: Opaque) {
        not_in_callback("cuptiSubscribe");
        if handle.is_null() {
            return Err(INVALID_PARAMETER);
        }
        handle.set(registry::subscribe_v1()?);
        Ok(())
    }
    enter fn cuptiActivityRegisterCallbacks(request: Option<RequestV1>, complete: Option<CompleteV1>) {
        not_in_callback("cuptiActivityRegisterCallbacks");
        let (Some(request), Some(complete)) = (request, complete) else { return Err(INVALID_PARAMETER) };
        use_v1()?.register(Callbacks::V1(request, complete));
        Ok(())
    }
    enter fn cuptiActivityEnable(kind: u32) {
        not_in_callback("cuptiActivityEnable");
        switch_kind(&*use_v1()?, kind, true)
    }
    enter fn cuptiActivityDisable(kind: u32) {
        not_in_callback("cuptiActivityDisable");
        switch_kind(&*use_v1()?, kind, false)
    }
    enter fn cuptiActivityEnableDriverApi(cbid: u32, on: u8) {
        use_v1()?.switch_api(kind::DRIVER, cbid, on != 0);
        Ok(())
    }
    enter fn cuptiActivityEnableRuntimeApi(cbid: u32, on: u8) {
        use_v1()?.switch_api(kind::RUNTIME, cbid, on != 0);
        Ok(())
    }
    enter fn cuptiActivityPushExternalCorrelationId(kind: u32, id: u64) { use_v1()?.push_id(kind, id) }
    enter fn cuptiActivityPopExternalCorrelationId(kind: u32, last: Out<u64>) {
        last.set(use_v1()?.pop_id(kind)?);
        Ok(())
    }
    harmless fn cuptiActivityGetNextRecord(buffer: In<u8>, valid: usize, record: Out<usize>) {
        let _client = use_v1()?;
        next_record(buffer, valid, record)
    }
    enter fn cuptiActivityGetNumDroppedRecords(_context: Opaque, _stream: u32, dropped: Out<usize>) {
        dropped.set(use_v1()?.take_dropped());
        Ok(())
    }
    enter fn cuptiActivitySetAttribute(attribute: u32, len: Out<usize>, value: Out<u8>) {
        set_attribute(&*use_v1()?, attribute, len, value)
    }
    enter fn cuptiActivityGetAttribute(attribute: u32, len: Out<usize>, value: Out<u8>) {
        get_attribute(&*use_v1()?, attribute, len, value)
    }
    harmless fn cuptiGetTimestamp(timestamp: Out<u64>) {
        let _client = use_v1()?;
        timestamp.set(clock::now());
        Ok(())
    }
    enter fn cuptiActivityRegisterTimestampCallback(callback: Option<clock::Callback>) {
        let _client = use_v1()?;
        clock::register(callback);
        Ok(())
    }
}
