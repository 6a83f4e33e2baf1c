// SPDX-License-Identifier: GPL-2.0
// Private data of the connection manager: what a client asks for with each connection, and what a server answers.
#pragma once

#include "geometry.h"

namespace rtrs {

struct ConnectRequest {
    u16 connection;  // below connections; 0 is the service connection
    u16 connections; // 1 to max_connections
    u16 reconnects;
    Uuid path;
    Uuid session;    // which paths belong together
    bool first;      // the server may make the session if it has none
    bool whole_answers = false; // the client takes them
};

// Fails with ECONNRESET, which is what the client is answered: too short, of another protocol, or numbers that cannot be.
Result<ConnectRequest> parse_connect_request(Bytes bytes);
wire::ConnectRequest write_connect_request(const ConnectRequest& request);

// What a server offers to the clients that it accepts.
struct Offer {
    Geometry geometry;
    u32 max_io_bytes;     // of data
    u32 max_header_bytes; // of user message and header beside it
    bool new_rkeys;       // each answer comes with a new key for its chunk
    bool whole_answers;   // and is one message
};

// Fails with ECONNRESET: too short, another protocol, an error, or memory that immediate data cannot name.
Result<Offer> parse_acceptance(Bytes bytes);
wire::ConnectResponse write_acceptance(const Geometry& geometry, bool new_rkeys, bool whole_answers);

// The error that a rejection names; ECONNRESET if it is not of this protocol, or names none that a program may get.
Errno parse_rejection(Bytes bytes);
wire::ConnectResponse write_rejection(Errno error);

} // namespace rtrs
