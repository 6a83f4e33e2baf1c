// SPDX-License-Identifier: GPL-2.0
// The parts of the RDS programs that need no kernel: histograms, and what is printed.
extern "C" {
#include "histogram.h"
#include "info-kcm.h"
#include "info-latency.h"
#include "info-peers.h"
#include "info-reported.h"
#include "json.h"
}

#include "../../include/uapi/hawser_netlink.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>

namespace {

TEST(Histogram, IsEmptyAtFirst)
{
    static struct histogram histogram;

    EXPECT_EQ(histogram_count(&histogram), 0U);
    EXPECT_EQ(histogram_percentile(&histogram, 500), 0U);
}

TEST(Histogram, PowersCoverEveryValueOnce)
{
    static struct histogram histogram;
    uint64_t sum = 0;

    histogram_add(&histogram, 0);
    for (unsigned int power = 0; power < 64; power++) {
        histogram_add(&histogram, UINT64_C(1) << power);
        histogram_add(&histogram, (UINT64_C(1) << power) + ((UINT64_C(1) << power) - 1));
    }
    EXPECT_EQ(histogram_count_power(&histogram, 0), 3U);
    for (unsigned int power = 0; power < 64; power++) {
        if (power) {
            EXPECT_EQ(histogram_count_power(&histogram, power), 2U) << power;
        }
        sum += histogram_count_power(&histogram, power);
    }
    EXPECT_EQ(sum, histogram_count(&histogram));
    EXPECT_EQ(sum, 129U);
}

TEST(Histogram, PercentilesAreAtMostASixteenthTooHigh)
{
    for (uint64_t value : {UINT64_C(0), UINT64_C(1), UINT64_C(15), UINT64_C(16), UINT64_C(17), UINT64_C(1000),
                           UINT64_C(123456789), UINT64_MAX / 2, UINT64_MAX}) {
        struct histogram *histogram = static_cast<struct histogram *>(calloc(1, sizeof(*histogram)));
        uint64_t found;

        histogram_add(histogram, value);
        found = histogram_percentile(histogram, 500);
        EXPECT_GE(found, value);
        EXPECT_LE(found - value, value / 16);
        free(histogram);
    }
}

TEST(Histogram, PercentilesRank)
{
    static struct histogram histogram, more;

    for (uint64_t i = 1; i <= 10; i++)
        histogram_add(&histogram, i);
    EXPECT_EQ(histogram_percentile(&histogram, 0), 1U);
    EXPECT_EQ(histogram_percentile(&histogram, 100), 1U);
    EXPECT_EQ(histogram_percentile(&histogram, 101), 2U);
    EXPECT_EQ(histogram_percentile(&histogram, 500), 5U);
    EXPECT_EQ(histogram_percentile(&histogram, 1000), 10U);
    for (uint64_t i = 0; i < 90; i++)
        histogram_add(&more, 15);
    histogram_merge(&histogram, &more);
    EXPECT_EQ(histogram_count(&histogram), 100U);
    EXPECT_EQ(histogram_percentile(&histogram, 500), 15U);
}

std::string write_json(const std::function<void(struct json *)> &write)
{
    char *text = nullptr;
    size_t size = 0;
    FILE *file = open_memstream(&text, &size);
    struct json json;

    json_start(&json, file);
    write(&json);
    fclose(file);
    std::string result(text, size);
    free(text);
    return result;
}

std::string print_latency(const struct latency &latency)
{
    char *text = nullptr;
    size_t size = 0;
    FILE *file = open_memstream(&text, &size);

    latency_print(file, &latency);
    fclose(file);
    std::string result(text, size);
    free(text);
    return result;
}

TEST(Latency, ShowsTheRangesThatHaveMessages)
{
    uint64_t numbers[HAWSER_RDS_LATENCY_BUCKETS + 1] = {3, 0, 5};
    struct latency latency;

    latency_read(numbers, 3 * sizeof(uint64_t), &latency);
    EXPECT_EQ(print_latency(latency), "    acknowledged after us: [0,1) 3, [2,4) 5\n");
    numbers[HAWSER_RDS_LATENCY_BUCKETS - 1] = 7;
    latency_read(numbers, sizeof(numbers), &latency); // of a later version
    EXPECT_EQ(print_latency(latency), "    acknowledged after us: [0,1) 3, [2,4) 5, [4194304,...) 7\n");
    std::string text = write_json([&](struct json *json) {
        json_open_object(json, nullptr);
        latency_write(json, "latency", &latency);
        json_close(json);
    });
    std::erase_if(text, [](char c) { return c == ' ' || c == '\n'; });
    EXPECT_EQ(text, "{\"latency\":[{\"from_us\":0,\"below_us\":1,\"messages\":3},{\"from_us\":2,\"below_us\":4,\"messages\":5},"
                    "{\"from_us\":4194304,\"below_us\":null,\"messages\":7}]}");
}

TEST(Latency, ShowsNothingWithoutMessages)
{
    struct latency latency;

    latency_read(nullptr, 0, &latency);
    EXPECT_EQ(print_latency(latency), "");
}

TEST(Json, PlacesCommasAndBreaks)
{
    const std::string text = write_json([](struct json *json) {
        json_open_object(json, nullptr);
        json_unsigned(json, "a", UINT64_MAX);
        json_open_array(json, "b");
        json_bool(json, nullptr, true);
        json_null(json, nullptr);
        json_decimal(json, nullptr, 0.5);
        json_close(json);
        json_open_array(json, "c");
        json_close(json);
        json_close(json);
    });

    EXPECT_EQ(text, "{\n  \"a\": 18446744073709551615,\n  \"b\": [\n    true,\n    null,\n    0.500\n  ],\n"
                    "  \"c\": []\n}\n");
}

TEST(Json, EscapesStrings)
{
    const std::string text = write_json([](struct json *json) {
        json_open_array(json, nullptr);
        json_string(json, nullptr, "q\" b\\ n\n \x7f \xff");
        json_close(json);
    });

    EXPECT_EQ(text, "[\n  \"q\\\" b\\\\ n\\u000a \\u007f \\u00ff\"\n]\n");
}

/** Attributes as the kernel packs them. */
class Attributes {
public:
    template <class Value> Attributes &add(std::uint16_t type, const Value &value)
    {
        nlattr head{static_cast<std::uint16_t>(sizeof(head) + sizeof(value)), type};
        bytes_.append(reinterpret_cast<const char *>(&head), sizeof(head));
        bytes_.append(reinterpret_cast<const char *>(&value), sizeof(value));
        bytes_.resize((bytes_.size() + 3) / 4 * 4);
        return *this;
    }
    Attributes &nest(std::uint16_t type, const Attributes &inner)
    {
        nlattr head{static_cast<std::uint16_t>(sizeof(head) + inner.bytes_.size()), type};
        bytes_.append(reinterpret_cast<const char *>(&head), sizeof(head));
        bytes_ += inner.bytes_;
        return *this;
    }
    attributes all() const { return {bytes_.data(), bytes_.size()}; }

private:
    std::string bytes_;
};

/** A connection that has ended, with a number that needs eight bytes. */
kcm_row ended_connection()
{
    kcm_row row;
    Attributes report;
    report.add(HAWSER_KCM_CONNECTION_MUX, 3U).add(HAWSER_KCM_CONNECTION_ID, 7U);
    report.add(HAWSER_KCM_CONNECTION_LOCAL, inet_addr("10.0.0.1")).add(HAWSER_KCM_CONNECTION_LOCAL_PORT, 7000U);
    report.add(HAWSER_KCM_CONNECTION_REMOTE, inet_addr("10.0.0.2")).add(HAWSER_KCM_CONNECTION_REMOTE_PORT, 40112U);
    report.add(HAWSER_KCM_CONNECTION_STATE, 1U | 8U).add(HAWSER_KCM_CONNECTION_ERROR, 32U);
    report.add(HAWSER_KCM_CONNECTION_RX_MESSAGES, 5U).add(HAWSER_KCM_CONNECTION_RX_BYTES, UINT64_C(5000000000));
    report.add(HAWSER_KCM_CONNECTION_TX_MESSAGES, 4U).add(HAWSER_KCM_CONNECTION_TX_BYTES, 400U);
    report.add(HAWSER_KCM_CONNECTION_RX_PARTIAL, 12U);
    kcm_connection_decode(report.all(), &row);
    return row;
}

TEST(KcmConnection, IsALineOfTheTable)
{
    kcm_row row = ended_connection();

    testing::internal::CaptureStdout();
    kcm_print_header();
    kcm_connection_show(&row);
    EXPECT_EQ(testing::internal::GetCapturedStdout(),
              "\nKCM Connections:\n"
              " Mux   Id       LocalAddr LPort      RemoteAddr RPort     RxMsgs        RxBytes     TxMsgs        TxBytes"
              "  Partial State\n"
              "   3    7        10.0.0.1  7000        10.0.0.2 40112          5     5000000000          4            400       12"
              " rx_stopped paused (Broken pipe)\n");
}

TEST(KcmConnection, IsAnObjectInJson)
{
    kcm_row row = ended_connection();
    char *text = nullptr;
    std::size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    struct json json;

    json_start(&json, out);
    json_open_object(&json, nullptr);
    kcm_connection_write(&json, &row);
    json_close(&json);
    fclose(out);
    std::string document(text, size);
    free(text);
    std::erase_if(document, [](char c) { return c == ' ' || c == '\n'; });
    EXPECT_EQ(document, R"({"mux":3,"id":7,"local_address":"10.0.0.1","local_port":7000,"remote_address":"10.0.0.2",)"
                        R"("remote_port":40112,"rx_stopped":true,"tx_stopped":false,"reserved":false,"paused":true,"error":32,)"
                        R"("rx_messages":5,"rx_bytes":5000000000,"tx_messages":4,"tx_bytes":400,"rx_partial":12})");
}

row loaded_mux()
{
    row row{};
    Attributes report;
    report.add(HAWSER_KCM_MUX_NUMBER, 3U).add(HAWSER_KCM_MUX_SOCKETS, 2U).add(HAWSER_KCM_MUX_CONNECTIONS, 7U);
    report.add(HAWSER_KCM_MUX_RX_MESSAGES, 5U).add(HAWSER_KCM_MUX_RX_BYTES, UINT64_C(5000000000));
    report.add(HAWSER_KCM_MUX_TX_MESSAGES, 4U).add(HAWSER_KCM_MUX_TX_BYTES, 400U);
    report.add(HAWSER_KCM_MUX_UNREAD, 12U).add(HAWSER_KCM_MUX_UNSENT, 13U);
    kcm_mux_decode(report.all(), &row.mux);
    return row;
}

TEST(KcmMux, IsALineOfTheTable)
{
    row row = loaded_mux();

    testing::internal::CaptureStdout();
    kcm_mux_print_header();
    kcm_mux_print(&row);
    EXPECT_EQ(testing::internal::GetCapturedStdout(),
              "\nKCM Multiplexors:\n"
              " Mux Sockets Connections     RxMsgs        RxBytes     TxMsgs        TxBytes   Unread   Unsent\n"
              "   3       2           7          5     5000000000          4            400       12       13\n");
}

/** A connection with a path over TCP and one without a stream; of former modules, that report no sockets. */
Attributes connection(bool former)
{
    Attributes all, tcp, first, second;
    all.add(HAWSER_RDS_CONNECTION_LOCAL, inet_addr("10.0.0.1")).add(HAWSER_RDS_CONNECTION_REMOTE, inet_addr("10.0.0.2"));
    tcp.add(HAWSER_RDS_TCP_LOCAL_PORT, 40001U).add(HAWSER_RDS_TCP_REMOTE_PORT, 16385U);
    tcp.add(HAWSER_RDS_TCP_HEADER_LEFT, 48U).add(HAWSER_RDS_TCP_DATA_LEFT, 7U).add(HAWSER_RDS_TCP_SENT_NEXT, 4000000000U);
    tcp.add(HAWSER_RDS_TCP_EXPECTED_UNA, 5U).add(HAWSER_RDS_TCP_SEEN_UNA, 6U);
    first.add(HAWSER_RDS_PATH_INDEX, 0U), second.add(HAWSER_RDS_PATH_INDEX, 1U);
    if (!former) {
        first.add(HAWSER_RDS_PATH_SENDING, 0U).nest(HAWSER_RDS_PATH_TCP, tcp);
        second.add(HAWSER_RDS_PATH_SENDING, 0U);
    }
    return all.nest(HAWSER_RDS_CONNECTION_PATH, first).nest(HAWSER_RDS_CONNECTION_PATH, second);
}

TEST(Reported, TcpSocketsAreThoseOfPaths)
{
    info_rows rows{};

    ASSERT_TRUE(reported_add_tcp_sockets(&rows, connection(false).all()));
    ASSERT_EQ(rows.count, 1U);
    const tcp_socket &tcp = rows.rows[0].tcp;
    EXPECT_EQ(rds_address_port(&tcp.local), 40001);
    EXPECT_EQ(rds_address_port(&tcp.remote), 16385);
    EXPECT_EQ(tcp.header_remaining, 48U);
    EXPECT_EQ(tcp.data_remaining, 7U);
    EXPECT_EQ(tcp.sent_next, 4000000000U);
    EXPECT_EQ(tcp.expected_una, 5U);
    EXPECT_EQ(tcp.seen_una, 6U);
    EXPECT_TRUE(tcp.has_tos);
    free(rows.rows);
}

// After an update of the programs: that there are none would be wrong.
TEST(Reported, TcpSocketsOfFormerModulesAreNot)
{
    info_rows rows{};

    EXPECT_FALSE(reported_add_tcp_sockets(&rows, connection(true).all()));
    EXPECT_EQ(rows.count, 0U);
}

TEST(Reported, MessagesHaveTheirQueuesEndOrTheirOwn)
{
    char text[RDS_ADDRESS_TEXT_SIZE];
    Attributes sent, received, to, from;
    info_rows rows{};

    to.add(HAWSER_RDS_MESSAGE_SEQUENCE, UINT64_C(5000000000)).add(HAWSER_RDS_MESSAGE_BYTES, 3U);
    to.add(HAWSER_RDS_MESSAGE_LOCAL_PORT, 1U).add(HAWSER_RDS_MESSAGE_REMOTE_PORT, 2U);
    from.add(HAWSER_RDS_MESSAGE_LOCAL_PORT, 3U).add(HAWSER_RDS_MESSAGE_REMOTE, inet_addr("10.0.0.3"));
    sent.add(HAWSER_RDS_QUEUE_LOCAL, inet_addr("10.0.0.1")).add(HAWSER_RDS_QUEUE_REMOTE, inet_addr("10.0.0.2"));
    sent.add(HAWSER_RDS_QUEUE_TOS, 4U).nest(HAWSER_RDS_QUEUE_MESSAGE, to);
    received.add(HAWSER_RDS_QUEUE_LOCAL, inet_addr("10.0.0.1")).nest(HAWSER_RDS_QUEUE_MESSAGE, from);
    reported_add_messages(&rows, sent.all());
    reported_add_messages(&rows, received.all());
    ASSERT_EQ(rows.count, 2U);
    const message &first = rows.rows[0].message, &second = rows.rows[1].message;
    EXPECT_STREQ(rds_address_format(&first.remote, text), "10.0.0.2");
    EXPECT_EQ(rds_address_port(&first.local), 1);
    EXPECT_EQ(rds_address_port(&first.remote), 2);
    EXPECT_EQ(first.sequence, UINT64_C(5000000000));
    EXPECT_EQ(first.bytes, 3U);
    EXPECT_EQ(first.tos, 4U);
    EXPECT_STREQ(rds_address_format(&second.local, text), "10.0.0.1");
    EXPECT_STREQ(rds_address_format(&second.remote, text), "10.0.0.3");
    EXPECT_EQ(rds_address_port(&second.local), 3);
    free(rows.rows);
}

row path_to(const char *remote, unsigned index, std::uint64_t state, std::uint64_t age_ms)
{
    row path{};

    rds_address_parse("10.0.0.1", &path.path.local);
    rds_address_parse(remote, &path.path.remote);
    std::strcpy(path.path.transport, "tcp");
    path.path.index = index;
    path.path.peer = HAWSER_RDS_PEER_HAWSER;
    path.path.state = state;
    path.path.reason = state == HAWSER_RDS_UP ? HAWSER_RDS_ACCEPTED : HAWSER_RDS_REFUSED;
    path.path.age_ms = age_ms;
    path.path.queued = 1 + index, path.path.tx_bytes = 1000, path.path.rx_bytes = 10, path.path.drops = 2;
    path.path.has_rtt = state == HAWSER_RDS_UP;
    path.path.rtt_us = path.path.has_rtt ? 100 + index : 0;
    return path;
}

TEST(Peers, AreTheSumsOfTheirPaths)
{
    row paths[] = {path_to("10.0.0.2", 0, HAWSER_RDS_UP, 9000), path_to("10.0.0.2", 1, HAWSER_RDS_DOWN, 1500),
                   path_to("10.0.0.2", 2, HAWSER_RDS_UP, 8000), path_to("10.0.0.3", 0, HAWSER_RDS_DOWN, 2000)};
    info_rows all{paths, 4, 4}, peers{};

    peers_collect(&all, &peers);
    ASSERT_EQ(peers.count, 2U);
    testing::internal::CaptureStdout();
    peers_print(&peers.rows[0]);
    peers_print(&peers.rows[1]);
    free(peers.rows);
    EXPECT_EQ(testing::internal::GetCapturedStdout(),
              "       10.0.0.1        10.0.0.2   0 tcp        hawser     2/3 refused           1.5s        6           3000"
              "             30        0      6    102us\n"
              "       10.0.0.1        10.0.0.3   0 tcp        hawser     0/1 refused           2.0s        1           1000"
              "             10        0      2        -\n");
}

} // namespace
