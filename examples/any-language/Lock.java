import java.io.IOException;
import java.net.URI;
import java.net.http.*;
import java.time.Duration;
import java.util.*;
import java.util.regex.*;

public class Lock {
    static final HttpClient http = HttpClient.newHttpClient();
    static final String token = UUID.randomUUID().toString();
    static long sent; // valid_ms counts from here

    static HttpResponse<String> ask(String path, String more) throws InterruptedException {
        var body = "{\"name\":\"invoice:42\",\"token\":\"" + token + "\"" + more + "}";
        var request = HttpRequest.newBuilder(URI.create("http://127.0.0.1:7925/v1/" + path))
            .timeout(Duration.ofSeconds(40)).header("Content-Type", "application/json")
            .POST(HttpRequest.BodyPublishers.ofString(body)).build();
        HttpResponse<String> answer = null;
        for (int i = 0; i < 3 && (answer == null || Set.of(502, 503, 504).contains(answer.statusCode())); i++) {
            sent = System.nanoTime();
            try {
                answer = http.send(request, HttpResponse.BodyHandlers.ofString());
            } catch (IOException noAnswer) {
                answer = null; // the same token again
            }
        }
        return answer;
    }

    static long number(String field, HttpResponse<String> answer) {
        Matcher m = Pattern.compile("\"" + field + "\":(\\d+)").matcher(answer.body());
        return m.find() ? Long.parseLong(m.group(1)) : 0;
    }

    public static void main(String[] args) throws InterruptedException {
        var lock = ask("acquire", ",\"ttl_ms\":30000,\"wait_ms\":20000");
        int code = lock == null ? 0 : lock.statusCode();
        if (code == 200 && System.nanoTime() - sent < number("valid_ms", lock) * 1_000_000) {
            System.out.println("work with fence " + number("fence", lock));
        } else if (code == 202 || code == 409) {
            System.out.println("somebody else has it");
        }
        ask("release", "");
    }
}
