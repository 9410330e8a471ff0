//! Tests of the engine as a whole, with test servers in this process on loopback.

mod allocation;
mod command_line;
mod connections;
mod decryption;
mod gateway;
mod gateway_limits;
mod hosts;
mod http;
mod mysql;
mod origin;
mod postgres;
mod redis;
mod support;
