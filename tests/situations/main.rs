//! Situations whose truth is known by construction, and the tool's verdicts on them.
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "made-up jobs are small"
)]

mod hung;
mod messages;
mod passed_on;
mod real;
mod script;
mod slow;
mod table;
