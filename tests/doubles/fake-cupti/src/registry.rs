//! Who uses the library: the families and what they forbid each other, and the subscribers.

use crate::client::Client;
use crate::counters::{SUBSCRIBED, UNSUBSCRIBED};
use crate::knobs::{Holder, knobs};
use crate::level::Level;
use crate::result::{Code, INVALID_PARAMETER, MULTIPLE_SUBSCRIBERS, NOT_COMPATIBLE, Outcome};
use parking_lot::Mutex;
use std::sync::Arc;

/// `CUpti_SubscriberHandle`, as a number.
pub(crate) type Handle = usize;

/// The one handle of V1.
const V1_HANDLE: Handle = 8;
/// Handles of V2 start here; the next is 8 more.
const FIRST_V2: Handle = 0x100;

/// Which functions the process uses: the first call decides.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Family {
    V1,
    V2,
}

struct Registry {
    family: Option<Family>,
    global: Arc<Client>,
    /// holds V1's one subscription
    v1: Option<String>,
    v2: Vec<Option<Arc<Client>>>,
    /// what the first of V2 said of others
    shared: bool,
}

impl Registry {
    /// With whoever has subscribed before.
    fn new() -> Registry {
        let mut registry = Registry {
            family: None,
            global: Client::new("everybody".to_owned()),
            v1: None,
            v2: Vec::new(),
            shared: false,
        };
        if let Some(name) = &knobs().taken {
            let name = format!("CUPTI for {name}");
            match knobs().taken_by {
                Holder::V1 => {
                    registry.v1 = Some(name);
                    registry.family = Some(Family::V1);
                }
                by @ (Holder::V2 | Holder::V2Shared) => {
                    registry.v2.push(Some(Client::new(name)));
                    registry.family = Some(Family::V2);
                    registry.shared = by == Holder::V2Shared;
                }
            }
        }
        registry
    }

    fn subscribers(&self) -> impl Iterator<Item = &Arc<Client>> {
        self.v2.iter().flatten()
    }

    fn holder(&self) -> Option<String> {
        let of_v2 = || self.subscribers().next().map(|client| client.name.clone());
        self.v1.clone().or_else(of_v2)
    }
}

static REGISTRY: Mutex<Option<Registry>> = Mutex::new(None);

fn with<T>(action: impl FnOnce(&mut Registry) -> T) -> T {
    action(REGISTRY.lock().get_or_insert_with(Registry::new))
}

fn exclusive() -> bool {
    knobs().level >= Level::V2_COMPLETE
}

/// Everybody who can get records.
pub(crate) fn clients() -> Vec<Arc<Client>> {
    with(|registry| {
        let global = std::iter::once(&registry.global);
        global.chain(registry.subscribers()).cloned().collect()
    })
}

/// For a function of V1: who its records are for.
pub(crate) fn use_v1() -> Result<Arc<Client>, Code> {
    with(|registry| {
        if exclusive() && registry.family == Some(Family::V2) {
            return Err(NOT_COMPATIBLE);
        }
        registry.family.get_or_insert(Family::V1);
        Ok(registry.global.clone())
    })
}

/// For a function of V2: the subscriber.
pub(crate) fn use_v2(handle: Handle) -> Result<Arc<Client>, Code> {
    with(|registry| {
        if exclusive() && registry.family == Some(Family::V1) {
            return Err(NOT_COMPATIBLE);
        }
        let index = handle.checked_sub(FIRST_V2).map(|offset| offset / 8);
        let client = index.and_then(|index| registry.v2.get(index)?.clone());
        client.ok_or(INVALID_PARAMETER)
    })
}

/// Stands for a subscriber where none is asked for.
pub(crate) fn nobody() -> Arc<Client> {
    with(|registry| registry.global.clone())
}

/// Whether the handle is a live subscription, of either family.
pub(crate) fn is_subscriber(handle: Handle) -> bool {
    let of_v1 = with(|registry| registry.v1.is_some()) && handle == V1_HANDLE;
    of_v1 || use_v2(handle).is_ok()
}

/// `cuptiSubscribe`
pub(crate) fn subscribe_v1() -> Result<Handle, Code> {
    with(|registry| {
        if registry.holder().is_some() {
            return Err(MULTIPLE_SUBSCRIBERS);
        }
        if exclusive() && registry.family == Some(Family::V2) {
            return Err(MULTIPLE_SUBSCRIBERS);
        }
        registry.family.get_or_insert(Family::V1);
        registry.v1 = Some("CUPTI".to_owned());
        SUBSCRIBED.add(1);
        Ok(V1_HANDLE)
    })
}

/// Why there is no subscription: the code, and who has one.
pub(crate) struct Refused {
    pub(crate) code: Code,
    pub(crate) holder: Option<String>,
}

/// `cuptiSubscribe_v2`. Before 13.2 it is a subscription of V1 with a name.
pub(crate) fn subscribe_v2(name: &str, share: bool) -> Result<Handle, Refused> {
    let name = format!("CUPTI for {name}");
    with(|registry| {
        let holder = registry.holder();
        let refused = |code, holder| Err(Refused { code, holder });
        if knobs().level < Level::V2_BEGUN {
            if holder.is_some() {
                return refused(MULTIPLE_SUBSCRIBERS, holder);
            }
            registry.v1 = Some(name);
            SUBSCRIBED.add(1);
            return Ok(V1_HANDLE);
        }
        if registry.v1.is_some() {
            return refused(MULTIPLE_SUBSCRIBERS, holder);
        }
        if exclusive() && registry.family == Some(Family::V1) {
            return refused(NOT_COMPATIBLE, None);
        }
        let alone = holder.is_none();
        let fits = alone || (share && registry.shared);
        if !fits || (share && knobs().old_driver) {
            return refused(MULTIPLE_SUBSCRIBERS, holder);
        }
        registry.family.get_or_insert(Family::V2);
        if alone {
            registry.shared = share;
        }
        registry.v2.push(Some(Client::new(name)));
        SUBSCRIBED.add(1);
        Ok(FIRST_V2 + (registry.v2.len() - 1) * 8)
    })
}

/// `cuptiUnsubscribe`
pub(crate) fn unsubscribe(handle: Handle) -> Outcome {
    with(|registry| {
        if handle == V1_HANDLE && registry.v1.take().is_some() {
            UNSUBSCRIBED.add(1);
            return Ok(());
        }
        let index = handle.checked_sub(FIRST_V2).map(|offset| offset / 8);
        let slot = index.and_then(|index| registry.v2.get_mut(index));
        let gone = slot.and_then(Option::take).ok_or(INVALID_PARAMETER)?;
        UNSUBSCRIBED.add(1);
        // Its buffers stay with CUPTI, as the tool must expect.
        drop(gone);
        Ok(())
    })
}

/// How it stands with several subscribers: 0 one, 1 many, 2 not decided.
pub(crate) fn sharing() -> u8 {
    with(|registry| match registry.holder() {
        None => 2,
        Some(_) => u8::from(registry.shared),
    })
}

/// Whether anybody traces.
pub(crate) fn is_running() -> bool {
    let subscribed = with(|registry| registry.holder().is_some());
    subscribed || clients().iter().any(|client| !client.kinds().is_empty())
}
