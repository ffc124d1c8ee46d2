//! The end of a session: stop recording, write, say what there is.

use super::Session;
use crate::abi::logger;
use crate::config::{Finalize, Verbosity};
use crate::recorder;

/// Ends the session. Runs inside the host's last `finalize` or its exit.
pub(super) fn close(session: Session) {
    recorder::end();
    let Session {
        config,
        out,
        part,
        journal,
        tag,
        registry,
        communicators,
        keeper,
    } = session;
    keeper.stop();
    let _ = (
        tag,
        communicators.count(),
        part,
        journal,
        registry.reserved_bytes(),
        config.finalize == Finalize::Inline,
    );
    if config.verbosity > Verbosity::Quiet {
        logger::info(&format!("journal in {}", out.display()));
    }
}
