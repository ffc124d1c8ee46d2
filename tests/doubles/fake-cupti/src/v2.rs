//! V2: the functions of one subscriber.

use crate::c_args::{In, Out, Text};
use crate::client::{Callbacks, CompleteV2, RequestV2};
use crate::clock;
use crate::guard::not_in_callback;
use crate::knobs::knobs;
use crate::level::{Level, kind};
use crate::registry::{self, Handle, use_v2};
use crate::result::{INVALID_PARAMETER, NOT_SUPPORTED, SIZE_NOT_SUFFICIENT};
use crate::shared::{Opaque, functions, get_attribute, next_record, set_attribute, switch_kind};

/// `CUpti_SubscriberParams`; the last field since 13.2
#[repr(C)]
#[derive(Clone, Copy)]
struct SubscriberParams {
    len: usize,
    name: Text,
    old_name: Out<u8>,
    old_name_len: usize,
    share: u8,
}

/// The structure without and with the last field.
const SHORT_PARAMS: usize = 32;
const LONG_PARAMS: usize = 40;
/// The room that a holder's name must have.
const OLD_NAME_MIN: usize = 64;

impl SubscriberParams {
    /// Only so much of it as its length says may be read.
    fn read(at: In<SubscriberParams>) -> Option<SubscriberParams> {
        let words: In<usize> = at.cast();
        let len = words.get()?;
        let long = match len {
            SHORT_PARAMS => false,
            LONG_PARAMS => knobs().level >= Level::V2_BEGUN,
            _ => return None,
        };
        let texts: In<Text> = at.cast();
        let outs: In<Out<u8>> = at.cast();
        let bytes: In<u8> = at.cast();
        Some(SubscriberParams {
            len,
            name: texts.element(1)?,
            old_name: outs.element(2)?,
            old_name_len: words.element(3)?,
            share: if long {
                bytes.element(SHORT_PARAMS)?
            } else {
                0
            },
        })
    }

    fn give_holder(&self, name: &str) {
        let bytes = name
            .as_bytes()
            .iter()
            .take(self.old_name_len.saturating_sub(1));
        for (index, byte) in bytes.chain(std::iter::once(&0)).enumerate() {
            self.old_name.set_element(index, *byte);
        }
    }
}

functions! {
    enter fn cuptiSubscribe_v2(handle: Out<Handle>, _callback: Opaque, _data: Opaque, params: In<SubscriberParams>) {
        not_in_callback("cuptiSubscribe_v2");
        let params = SubscriberParams::read(params).ok_or(INVALID_PARAMETER)?;
        let name = params.name.get().ok_or(INVALID_PARAMETER)?;
        if handle.is_null() || params.len == 0 {
            return Err(INVALID_PARAMETER);
        }
        if !params.old_name.is_null() && params.old_name_len < OLD_NAME_MIN {
            return Err(SIZE_NOT_SUFFICIENT);
        }
        let own = registry::subscribe_v2(&name, params.share != 0).map_err(|refused| {
            if let Some(holder) = &refused.holder {
                params.give_holder(holder);
            }
            refused.code
        })?;
        handle.set(own);
        Ok(())
    }
    enter fn cuptiActivityRegisterCallbacks_v2(handle: Handle, request: Option<RequestV2>,
                                               complete: Option<CompleteV2>) {
        not_in_callback("cuptiActivityRegisterCallbacks_v2");
        let (Some(request), Some(complete)) = (request, complete) else { return Err(INVALID_PARAMETER) };
        use_v2(handle)?.register(Callbacks::V2(request, complete));
        Ok(())
    }
    enter fn cuptiActivityEnable_v2(handle: Handle, kind: u32, config: Opaque) {
        not_in_callback("cuptiActivityEnable_v2");
        // Records with fields of one's choice are not played.
        if !config.is_null() {
            return Err(NOT_SUPPORTED);
        }
        switch_kind(&*use_v2(handle)?, kind, true)
    }
    enter fn cuptiActivityDisable_v2(handle: Handle, kind: u32, _config: Opaque) {
        not_in_callback("cuptiActivityDisable_v2");
        switch_kind(&*use_v2(handle)?, kind, false)
    }
    enter fn cuptiActivityEnableDriverApi_v2(handle: Handle, cbid: u32, on: u8) {
        use_v2(handle)?.switch_api(kind::DRIVER, cbid, on != 0);
        Ok(())
    }
    enter fn cuptiActivityEnableRuntimeApi_v2(handle: Handle, cbid: u32, on: u8) {
        use_v2(handle)?.switch_api(kind::RUNTIME, cbid, on != 0);
        Ok(())
    }
    enter fn cuptiActivityPushExternalCorrelationId_v2(handle: Handle, kind: u32, id: u64) {
        use_v2(handle)?.push_id(kind, id)
    }
    enter fn cuptiActivityPopExternalCorrelationId_v2(handle: Handle, kind: u32, last: Out<u64>) {
        last.set(use_v2(handle)?.pop_id(kind)?);
        Ok(())
    }
    enter fn cuptiActivityGetNextRecord_v2(handle: Handle, buffer: In<u8>, valid: usize, record: Out<usize>) {
        let _client = use_v2(handle)?;
        next_record(buffer, valid, record)
    }
    enter fn cuptiActivityGetNumDroppedRecords_v2(handle: Handle, _context: Opaque, _stream: u32,
                                                  dropped: Out<usize>) {
        dropped.set(use_v2(handle)?.take_dropped());
        Ok(())
    }
    enter fn cuptiActivitySetAttribute_v2(handle: Handle, attribute: u32, len: Out<usize>, value: Out<u8>) {
        set_attribute(&*use_v2(handle)?, attribute, len, value)
    }
    enter fn cuptiActivityGetAttribute_v2(handle: Handle, attribute: u32, len: Out<usize>, value: Out<u8>) {
        // The state of sharing can be asked for before there is a subscriber.
        if handle == 0 {
            return get_attribute(&registry::nobody(), attribute, len, value);
        }
        get_attribute(&*use_v2(handle)?, attribute, len, value)
    }
    enter fn cuptiActivityGetEnabledKinds(handle: Handle, buffer: Out<u32>, len: Out<u32>, count: Out<u32>) {
        if count.is_null() || (!buffer.is_null() && len.is_null()) {
            return Err(INVALID_PARAMETER);
        }
        let mut kinds: Vec<u32> = if handle == 0 {
            registry::clients().iter().flat_map(|client| client.kinds()).collect()
        } else {
            use_v2(handle)?.kinds()
        };
        kinds.sort_unstable();
        kinds.dedup();
        // In bytes, as the sizes of all other buffers.
        let room = len.get().map_or(0, |bytes| usize::try_from(bytes / 4).unwrap_or(0));
        for (index, kind) in kinds.iter().take(room).enumerate() {
            buffer.set_element(index, *kind);
        }
        count.set(u32::try_from(kinds.len()).unwrap_or(u32::MAX));
        Ok(())
    }
    enter fn cuptiGetTimestamp_v2(handle: Handle, timestamp: Out<u64>) {
        let _client = use_v2(handle)?;
        timestamp.set(clock::now());
        Ok(())
    }
}
