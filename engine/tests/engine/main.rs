//! The engine against servers of these tests' own, in this process, on loopback: what cannot be seen beside the code.

mod allocation;
mod certificates;
mod command_line;
mod decryption;
mod failures;
mod gateway;
mod gateway_limits;
mod hosts;
mod http;
mod http_load;
mod mysql;
mod origin;
mod postgres;
mod redis;
mod round_trips;
mod support;
