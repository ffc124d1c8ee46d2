//! Archives written by this crate, read by this crate and by otf2-print; misuse and damage.

mod damage;
mod misuse;
mod parts;
mod programs;
mod round_trip;
mod sample;
mod verbatim;
