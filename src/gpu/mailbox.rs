//! Requests of other threads to the worker. They wait for its answers without a lock and for a bounded time.

use std::collections::VecDeque;
use std::time::Instant;

use parking_lot::{Condvar, Mutex};

use super::driver::{CudaError, DeviceContext};

#[derive(Clone, Copy, Debug)]
pub(super) enum Message {
    Begins { communicator: u64, device: Result<DeviceContext, CudaError> },
    Ends { communicator: u64, deadline: Instant },
    Finish { deadline: Instant },
}

/// Requests to the worker, and whether it has answered them.
#[derive(Debug, Default)]
pub(super) struct Mailbox {
    state: Mutex<State>,
    requested: Condvar,
    answered: Condvar,
}

#[derive(Debug, Default)]
struct State {
    messages: VecDeque<Message>,
    sent: u64,
    answered: u64,
    is_over: bool,
}

impl Mailbox {
    /// Sends a message, and waits for the answer until `until`. False if there is none by then.
    pub(super) fn ask(&self, message: Message, until: Instant) -> bool {
        let mut state = self.state.lock();
        if state.is_over {
            return true;
        }
        state.sent += 1;
        let number = state.sent;
        state.messages.push_back(message);
        self.requested.notify_one();
        while state.answered < number && !state.is_over {
            if self.answered.wait_until(&mut state, until).timed_out() {
                return state.answered >= number || state.is_over;
            }
        }
        true
    }

    /// The next message; waits for it until `until`.
    pub(super) fn next(&self, until: Instant) -> Option<Message> {
        let mut state = self.state.lock();
        if state.messages.is_empty() {
            self.requested.wait_until(&mut state, until);
        }
        state.messages.pop_front()
    }

    /// The worker has done what the message in turn asks for.
    pub(super) fn answer(&self) {
        self.state.lock().answered += 1;
        self.answered.notify_all();
    }

    pub(super) fn close(&self) {
        self.state.lock().is_over = true;
        self.answered.notify_all();
    }
}
